"""A recording is used again only while all that it was made from is as it was; a planted change forces a new one."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.experiments import kept_recordings
from tasks.experiments.kept_recordings import NOTE, MadeFrom, digest_given, is_current, observe_or_keep
from tasks.experiments.observe_arm import observe_arm
from tasks.records.observation import Observation
from tasks.records.plan import RunPlan
from tasks.store.json_records import model_to_json

pytestmark = pytest.mark.long

type Make = Callable[..., RunPlan]
type Started = list[Path]

TRAINER = """
import json, os, pathlib, sys
sys.path.append({packages!r})
import jax, jax.numpy as jnp
import rate
scale = json.load(open({data!r}))["scale"]
if os.path.isdir({extra!r}):
    os.listdir({extra!r})
{more}
def train_step(w, x):
    return w - rate.RATE * jax.grad(lambda w: jnp.sum((x @ w) ** 2))(w)
step = jax.jit(train_step)
w, x = scale * jnp.ones((4, 4)), jnp.ones((2, 4))
for n in range(3):
    w = step(w, x)
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """The folders for which a trainer was started."""
    found: Started = []

    def observe(plan: RunPlan, folder: Path, **settings: Any) -> Observation:
        found.append(folder)
        return observe_arm(plan, folder, **settings)

    monkeypatch.setattr(kept_recordings, "observe_arm", observe)
    return found


class Trained:
    """A trainer beside its packages and its data, and the pages of one case."""

    def __init__(self, plan_of: Make, folder: Path):
        self.packages, self.data, self.extra = folder / "packages", folder / "data.json", folder / "extra"
        self.pages, self.plan_of = folder / "comparisons" / "main-vs-branch" / "01_base", plan_of
        for place in (self.packages, self.extra):
            place.mkdir()
        (self.packages / "rate.py").write_text("RATE = 0.1\n")
        self.data.write_text('{"scale": 1.0}')
        self.plan = self.make_plan()

    def make_plan(self, more: str = "") -> RunPlan:
        places = {"packages": str(self.packages), "data": str(self.data), "extra": str(self.extra), "more": more}
        return self.plan_of("baseline", text=TRAINER.format(**places)).replace(config={"steps": 3})

    def record(self, page: str, plan: RunPlan | None = None, **settings: Any) -> Observation:
        folder = self.pages / page / "experiments" / "baseline"
        return observe_or_keep(plan or self.plan, folder, tensors=False, batches=2, **settings)


@pytest.fixture
def trained(plan_of: Make, tmp_path: Path) -> Trained:
    return Trained(plan_of, tmp_path)


def change_nothing(trained: Trained) -> None:
    pass


def link_a_package(trained: Trained) -> None:
    os.link(trained.packages / "rate.py", trained.packages.parent / "linked.py")


def edit_a_package(trained: Trained) -> None:
    (trained.packages / "rate.py").write_text("RATE = 0.2\n")


def edit_a_package_and_keep_its_time(trained: Trained) -> None:
    file = trained.packages / "rate.py"
    was = file.stat()
    file.write_text("RATE = 0.2\n")  # of the same size
    os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))


def replace_data(trained: Trained) -> None:
    trained.data.write_text('{"scale": 2.0}')


def shadow_a_package(trained: Trained) -> None:
    # in the folder of the program, which Python searches first
    Path(trained.plan.argv[1]).with_name("rate.py").write_text("RATE = 0.2\n")


def add_a_file_to_a_listed_folder(trained: Trained) -> None:
    (trained.extra / "shard-1").touch()


def edit_the_program(trained: Trained) -> None:
    program = Path(trained.plan.argv[1])
    program.write_text(program.read_text().replace("** 2", "** 3"))


@pytest.mark.parametrize(
    ("change", "is_kept"),
    [
        (change_nothing, True), (link_a_package, True), (edit_a_package, False),
        (edit_a_package_and_keep_its_time, False), (replace_data, False), (shadow_a_package, False),
        (add_a_file_to_a_listed_folder, False), (edit_the_program, False),
    ],
)  # fmt: skip
def test_a_changed_file_forces_a_new_recording(
    trained: Trained,
    started: Started,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Trained], None],
    is_kept: bool,
) -> None:
    first = trained.record("one")
    assert first.step == "train_step"
    change(trained)
    monkeypatch.setattr(kept_recordings, "_MADE", set())  # another command
    second = trained.record("two")
    assert len(started) == 1 + (not is_kept)
    assert trained.record("two") == second  # which stays in its own page
    assert len(started) == 1 + (not is_kept)
    assert trained.record("one") == second  # the page itself sees the change, too, and takes the newer recording
    assert len(started) == 1 + (not is_kept)
    if is_kept:
        assert second == first


def test_what_no_file_tells_forces_a_new_recording(
    trained: Trained, started: Started, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trained.record("one")
    plan = trained.plan
    changed = [
        plan.replace(environment={**plan.environment, "XLA_FLAGS": "--xla_cpu_enable_fast_math=true"}),
        plan.replace(identity="another tree at the same commit"),
        plan.replace(step=("update",)),
        plan.replace(checkout=str(tmp_path)),
        plan.replace(config={"steps": 4}),
    ]
    given = digest_given(plan, {})
    assert len({given, *(digest_given(one, {}) for one in changed)}) == 1 + len(changed)
    assert digest_given(plan, {"batches": 3}) != given
    passed_on = plan.replace(passed_on=(*plan.passed_on, "XLA_*"))
    before = digest_given(passed_on, {})
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    assert digest_given(passed_on, {}) != before
    assert digest_given(plan, {}) == given  # the trainer does not get it
    monkeypatch.setattr(kept_recordings, "describe_machine", lambda: ["another"])
    assert digest_given(plan, {}) != given
    assert len(started) == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("import subprocess; subprocess.run(['true'])", "starts another program"),
        ("if not os.fork(): os._exit(0)", "forks"),
        ("import socket; socket.socket().connect_ex(('127.0.0.1', 9))", "reads from the network"),
    ],
)  # fmt: skip
def test_what_no_note_can_follow_is_not_used_by_another_command(
    trained: Trained, started: Started, monkeypatch: pytest.MonkeyPatch, more: str, said: str
) -> None:
    plan = trained.make_plan(more)
    trained.record("one", plan)
    note = MadeFrom.model_validate_json((trained.pages / "one" / "experiments" / "baseline" / NOTE).read_bytes())
    assert note.unseen == (said,)
    trained.record("one", plan)
    assert len(started) == 1  # the experiments of one command share it
    trained.record("two", plan)
    assert len(started) == 2
    monkeypatch.setattr(kept_recordings, "_MADE", set())  # another command
    trained.record("one", plan)
    assert len(started) == 3


def test_a_cache_that_the_program_writes_is_no_change_in_the_same_command(
    trained: Trained, started: Started, tmp_path: Path
) -> None:
    cache = tmp_path / "fonts.json"
    plan = trained.make_plan(f"if not os.path.exists({str(cache)!r}): pathlib.Path({str(cache)!r}).write_text('[]')")
    trained.record("one", plan)
    trained.record("one", plan)
    assert len(started) == 1


def test_a_recording_with_a_copy_of_its_program_stays_in_its_page(trained: Trained, started: Started) -> None:
    folder = trained.pages / "one" / "experiments" / "baseline"
    folder.mkdir(parents=True)
    plan = trained.plan.replace(files=trained.plan.files.replace(copy_at=""))
    (folder / NOTE).write_text(model_to_json(MadeFrom(given=digest_given(plan, {}), timed=False, read={})))
    assert is_current(folder, digest_given(plan, {}))
    assert not kept_recordings._bring(plan, trained.pages / "two" / "experiments" / "baseline", digest_given(plan, {}))


def test_a_damaged_note_is_no_note(tmp_path: Path) -> None:
    (tmp_path / NOTE).write_text("{")
    assert not is_current(tmp_path, "given")


def test_times_of_another_hour_are_no_measure(trained: Trained, started: Started) -> None:
    assert trained.record("one", timed=True).front_end
    assert not trained.record("two").front_end
    assert len(started) == 1
    assert trained.record("one", timed=True).front_end
    assert len(started) == 1
    assert trained.record("two", timed=True).front_end
    assert len(started) == 2
