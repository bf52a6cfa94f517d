"""A result is taken from the device whose copy differs most, so that devices that drift apart show."""

from pathlib import Path

import jax
import numpy as np
import pytest

from maxview_probe.evaluate.run_program import KeptPrograms, RunnableProgram, find_farthest

pytestmark = pytest.mark.flows

FIRST = np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("copies", "place"),
    [([FIRST], 0), ([FIRST, FIRST.copy()], 0), ([FIRST, FIRST + 1, FIRST, FIRST - 2], 3)],
)
def test_the_copy_farthest_from_the_first_is_taken(copies: list[np.ndarray], place: int) -> None:
    assert find_farthest(copies) is copies[place]


def test_integers_and_booleans_have_a_distance() -> None:
    assert find_farthest([np.array([0, 250], np.uint8), np.array([255, 250], np.uint8)])[0] == 255
    assert find_farthest([np.array([False]), np.array([True])])[0]


def test_a_kept_program_has_the_results_of_a_compiled_one(tmp_path: Path) -> None:
    text = jax.jit(lambda x: x @ x + 1).lower(np.ones((4, 4), np.float32)).as_text()
    given = [np.arange(16, dtype=np.float32).reshape(4, 4)]
    kept = KeptPrograms(tmp_path / "programs", "this compiler")
    compiled = RunnableProgram(text, 1, kept=kept)
    loaded = RunnableProgram(text, 1, kept=kept)
    (file,) = (tmp_path / "programs").iterdir()
    assert np.array_equal(compiled(given)[0], given[0] @ given[0] + 1)
    assert np.array_equal(loaded(given)[0], compiled(given)[0])
    assert kept.load(text, compiled.place, quickly=False) is not None
    for other, quickly in ((text.replace("1.0", "2.0"), False), (text, True)):
        assert kept.load(other, compiled.place, quickly=quickly) is None
    assert KeptPrograms(kept.folder, "another").load(text, compiled.place, quickly=False) is None
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert kept.load(text, compiled.place, quickly=False) is None
    assert np.array_equal(RunnableProgram(text, 1, kept=kept)(given)[0], compiled(given)[0])
