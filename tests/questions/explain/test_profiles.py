"""Profiles of real steps on this machine's processor: seconds by source line, and the host's time between steps."""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from maxview_probe.observe.observation_files import BUFFERS, INSTRUCTIONS, write_memory
from maxview_probe.observe.profiling import Profiling
from questions.explain.live_buffers import Buffer, compare_memory, find_peak, read_buffers
from questions.explain.profiles import COLLECTION, GAP, ProfiledStep, compare_profiles, find_profile
from tasks.programs.read_with_jax import read_with_jax
from tasks.programs.source_lines import read_optimised

pytestmark = pytest.mark.flows

NAMES = ("left", "right")


def quick(x: jax.Array) -> jax.Array:
    return jnp.sum(jnp.tanh(x))


def slow(x: jax.Array) -> jax.Array:
    y = jnp.tanh(x)
    for _ in range(3):
        y = jnp.linalg.qr(y)[0]  # the slow line
    return jnp.sum(y)


def line_of(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip().endswith(text))


def record(step: Callable[..., Any], folder: Path, *, collect: bool = False) -> None:
    folder.mkdir()

    def train_step(x: jax.Array) -> Any:
        return step(x)

    x = jnp.ones((96, 96)) + jnp.eye(96)
    compiled = jax.jit(train_step).lower(x).compile()
    (folder / "step.hlo").write_text(compiled.as_text() or "")
    write_memory(folder, compiled)
    jax.block_until_ready(compiled(x))
    profiling = Profiling(folder / "profile")
    for _ in range(4):
        jax.block_until_ready(compiled(x))
        if collect:
            gc.collect()
    profiling.stop()


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> list[ProfiledStep]:
    root = tmp_path_factory.mktemp("profiles")
    record(quick, root / "quick")
    record(slow, root / "slow", collect=True)
    folders = [root / "quick", root / "slow"]
    paths = [path for folder in folders if (path := find_profile(folder / "profile"))]
    return [
        ProfiledStep(profile, read_optimised(folder / "step.hlo"), "train_step")
        for profile, folder in zip(read_with_jax("profile", paths), folders, strict=True)
    ]


def test_the_slow_line_is_named_first(steps: list[ProfiledStep]) -> None:
    found = compare_profiles(steps[0], steps[1], NAMES)
    assert found is not None
    assert found.steps == (4, 4)
    first = next(one for one in found.differences if one.what not in (GAP, COLLECTION))
    assert first.candidate_line is not None
    assert first.candidate_line.line == line_of("# the slow line")
    assert first.candidate_s > first.baseline_s
    assert "right takes" in found.sentence


def test_the_host_has_separate_rows(steps: list[ProfiledStep]) -> None:
    found = compare_profiles(steps[0], steps[1], NAMES)
    assert found is not None
    rows = {one.what: one for one in found.differences}
    assert rows[COLLECTION].candidate_s > rows[COLLECTION].baseline_s  # only that arm requested garbage collections
    assert rows[GAP].candidate_s > rows[GAP].baseline_s  # they happen between the steps


@pytest.mark.parametrize(("steps_ms", "sure"), [((10, 10, 11, 10, 10), True), ((10, 40, 30, 10, 40), False)])
def test_a_gap_that_other_load_may_have_lengthened_is_not_sure(steps_ms: tuple[int, ...], sure: bool) -> None:
    """Load that makes the usual step 20 ms longer can also lengthen a gap."""

    def profiled(gap_ms: float) -> ProfiledStep:
        runs, now = [], 0.0
        for length in steps_ms:
            runs.append([now, now + 1e6 * length])
            now += 1e6 * (length + gap_ms)
        module = {"runs": runs, "instructions": {"fusion.1": [9e6, 9e6, 9e6]}}
        return ProfiledStep({"modules": {"jit_f": module}, "devices": 1, "collections": []}, None, "f")

    found = compare_profiles(profiled(3), profiled(18), NAMES)
    assert found is not None
    gap = next(one for one in found.differences if one.what == GAP)
    assert (gap.baseline_s, gap.candidate_s) == (pytest.approx(0.003), pytest.approx(0.018))
    assert gap.sure is sure
    assert found.sentence.startswith("no line takes certainly longer") is not sure


def test_a_profile_without_the_step_explains_nothing(steps: list[ProfiledStep]) -> None:
    nothing = steps[0]._replace(profile={"modules": {}, "devices": 0, "collections": []})
    assert compare_profiles(nothing, steps[1], NAMES) is None


def test_an_invalid_profile_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.xplane.pb").write_text("no profile")
    with pytest.raises(ValueError, match=r"a\.xplane\.pb"):
        read_with_jax("profile", [tmp_path / "a.xplane.pb"])


def wide(x: jax.Array) -> jax.Array:
    return jnp.sum(jnp.sort((x[:, :, None] * jnp.ones((1, 1, 64))).reshape(-1)))  # the wide line


def test_a_buffer_of_one_arm_only_is_named(tmp_path: Path) -> None:
    record(quick, tmp_path / "quick")
    record(wide, tmp_path / "wide")
    sides = [
        (read_optimised(tmp_path / name / "step.hlo"), read_buffers(*(tmp_path / name / file for file in FILES)))
        for name in ("quick", "wide")
    ]
    found = compare_memory(sides[0], sides[1], NAMES)
    size = 96 * 96 * 64 * 4  # of the array sorted by `wide`
    assert found.peak_bytes[1] - found.peak_bytes[0] >= size
    largest = found.buffers[0]
    assert largest.candidate_bytes - largest.baseline_bytes >= size
    assert largest.candidate_line is not None
    assert largest.candidate_line.line == line_of("# the wide line")
    # 10 MB of the state that only the first arm may write into
    kept = compare_memory(sides[0], sides[0], NAMES, (10_000_000, 0))
    assert (kept.buffers[0].baseline_bytes, kept.buffers[0].candidate_bytes) == (0, 10_000_000)
    assert f"{NAMES[1]} does not donate" in kept.sentence


FILES = (BUFFERS, INSTRUCTIONS)


def test_arguments_live_all_the_time(tmp_path: Path) -> None:
    record(quick, tmp_path / "quick")
    program = read_optimised(tmp_path / "quick" / "step.hlo").program
    buffers = read_buffers(*(tmp_path / "quick" / file for file in FILES))
    given = [one for one in buffers if one.is_argument]
    assert [one.size for one in given] == [96 * 96 * 4]
    assert set(given) <= set(find_peak(program, buffers).buffers)
    unknown = Buffer("nowhere", 99, 0, 7, is_argument=False)
    assert find_peak(program, [*buffers, unknown]).bytes == find_peak(program, buffers).bytes + 7


def error_of(x: jax.Array) -> jax.Array:
    return jnp.sum(jnp.sin(jnp.sin(x @ x) @ x))


def keeps(x: jax.Array) -> jax.Array:
    return jax.grad(error_of)(x)


def recomputes(x: jax.Array) -> jax.Array:
    return jax.grad(jax.checkpoint(error_of))(x)


def test_an_arm_that_recomputes_nothing_is_named(tmp_path: Path) -> None:
    sides = []
    for function in (recomputes, keeps):
        record(function, tmp_path / function.__name__)
        files = (tmp_path / function.__name__ / file for file in FILES)
        sides.append((read_optimised(tmp_path / function.__name__ / "step.hlo"), read_buffers(*files)))
    assert f"{NAMES[1]} recomputes nothing" in compare_memory(sides[0], sides[1], NAMES).sentence
    assert "recomputes nothing" not in compare_memory(sides[1], sides[1], NAMES).sentence
