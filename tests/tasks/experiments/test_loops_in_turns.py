"""Two trainers take turns as they run, each in its own process, and all that goes wrong is one sentence."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.experiments import loops_in_turns
from tasks.experiments.interleave import TurnLimits
from tasks.experiments.loops_in_turns import name_other_calls, needs_hosts, time_loops, turn_loops
from tasks.records.host_times import HostTimes, Span
from tasks.records.loop_times import LoopCompile, LoopTimes
from tasks.records.observation import CycleRecord, Observation
from tasks.records.plan import RunPlan
from tasks.records.program_times import TimeRatio

pytestmark = pytest.mark.flows

type Planned = Callable[..., RunPlan]
SIZE = 400
LIMITS = TurnLimits(chance=0.005, tolerance=0.03, least=0.015, limit_s=12.0)
TEXT = f"""
import os, time, jax, jax.numpy as jnp
def train_step(w, x):
    for _ in range(8):
        w = w - 0.1 * x.T @ (x @ w) / {SIZE}
    return w, jnp.sum(w)
w, x = jnp.ones(({SIZE}, {SIZE})), jnp.ones(({SIZE}, {SIZE}))
CALL
for n in range(3000):
    w, loss = step(w, x)
    float(loss)
    time.sleep(0.001)
"""
CALLS = {
    "jit": "step = jax.jit(train_step, donate_argnums=0)",
    "compiled ahead of time": "step = jax.jit(train_step).lower(w, x).compile()",
}


@pytest.fixture
def turned(plan_of: Planned, tmp_path: Path) -> Callable[..., LoopTimes]:
    """turned(candidate's edit): the times of the loop and of the edited loop, in turns."""

    def turn(old: str = "", new: str = "", call: str = "jit", limits: TurnLimits = LIMITS) -> LoopTimes:
        text = TEXT.replace("CALL", CALLS[call])
        assert old in text
        plans = plan_of("left", text=text), plan_of("right", text=text.replace(old, new))
        return turn_loops(plans, tmp_path / "o", limits)

    return turn


@pytest.mark.parametrize("call", CALLS)
def test_a_sleep_of_the_host_is_found(call: str, turned: Callable[..., LoopTimes]) -> None:
    found = turned("time.sleep(0.001)", "time.sleep(0.03)", call)
    assert not found.problem
    assert found.wall is not None
    assert found.wall.low > 0.2
    assert found.cpu is not None
    assert found.cpu.low < 0.5  # it slept
    assert found.compiles == ((), ())
    assert found.processes == 2  # two pairs show it


def test_a_difference_that_one_pair_of_processes_shows_is_none(
    plan_of: Planned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two processes of one trainer may differ, as on a busy machine, and no round of theirs shows it."""
    wide, none = TimeRatio(effect=0.2, low=0.1, high=0.3), TimeRatio(effect=0.0, low=-0.02, high=0.02)
    compiled = LoopCompile(function="f", place="a.py:1", count=2)
    pairs = [LoopTimes(wall=wall, cpu=wall, rounds=10, steps=50, compiles=((), (compiled,))) for wall in (wide, none)]
    monkeypatch.setattr(loops_in_turns, "_turn_new_processes", lambda *arguments: pairs.pop(0))
    found = turn_loops((plan_of("left", text=" "), plan_of("right", text=" ")), tmp_path, LIMITS)
    assert found.wall is not None
    assert (found.wall.low, found.wall.high, found.steps) == (-0.02, 0.3, 100)
    assert found.compiles == ((), (compiled.replace(count=4),))


@pytest.mark.long
def test_equal_loops_do_not_differ(turned: Callable[..., LoopTimes]) -> None:
    found = turned()
    assert found.wall is not None
    assert found.wall.low < 0.015


def test_a_compile_in_each_step_is_counted_with_its_line(turned: Callable[..., LoopTimes]) -> None:
    found = turned("    w, loss = step(w, x)", "    w, loss = jax.jit(lambda w, x: train_step(w, x))(w, x)")
    assert not found.problem
    assert found.compiles[0] == ()
    (one,) = found.compiles[1]
    assert one.count >= found.steps
    assert one.place.endswith("trainer.py:10")
    assert not one.why


@pytest.mark.long
def test_an_argument_that_changes_is_named(turned: Callable[..., LoopTimes]) -> None:
    found = turned("    float(loss)", "    float(loss)\n    if n % 7 == 6: w, loss = step(w, x[:n])")
    assert found.compiles[0] == ()
    compiled = {one.function: one for one in found.compiles[1]}
    assert f"[0][1] float32[{SIZE},{SIZE}] → float32[" in compiled["train_step"].why
    assert compiled["train_step"].place.endswith("trainer.py:12")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("range(3000)", "range(4)", "the loop of right was not seen"),
        ("range(3000)", "range(9)", "train more steps"),
        ("    float(loss)", "    float(loss)\n    1 / (n < 30)", "right died in its turn with exit code 1"),
        ("    float(loss)", "    float(loss)\n    n == 30 and os.kill(os.getpid(), 9)", "right died in its turn"),
        ("    float(loss)", "    float(loss)\n    n == 30 and time.sleep(99)", "did not come to its step in 3 s"),
        ("step = jax", "raise MemoryError('no')\nstep = jax", "both trainers together do not fit into memory"),
    ],
)
def test_a_loop_that_cannot_take_turns_is_one_sentence(
    old: str, new: str, said: str, turned: Callable[..., LoopTimes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops_in_turns, "TURN_S", 3.0)
    monkeypatch.setattr(loops_in_turns, "TURN_SHARE", 0.0)
    found = turned(old, new)
    assert said in found.problem
    assert found.wall is None
    listed = subprocess.run(["ps", "-eo", "stat,args"], capture_output=True, text=True, check=True).stdout
    assert not [line for line in listed.splitlines() if "right/trainer.py" in line or "left/trainer.py" in line]


def test_a_tpu_takes_no_turns(plan_of: Planned, tmp_path: Path) -> None:
    plan = plan_of("left", text="raise SystemExit('not started')").replace(config={"hardware": "tpu", "steps": 5})
    assert turn_loops((plan, plan), tmp_path, LIMITS).problem.startswith("a TPU belongs to one process")


def test_other_numbers_of_calls_for_an_update_are_told() -> None:
    once, four = (Observation(step="f", cycle=CycleRecord(period=n)) for n in (1, 4))
    assert name_other_calls((once, once), ("a", "b")) is None
    found = name_other_calls((once, four), ("a", "b"))
    assert found is not None
    assert found.problem.startswith("a calls its step 1 time and b calls its step 4 times for an update")


@pytest.mark.parametrize(("low", "high", "needed"), [(-0.02, 0.02, False), (0.02, 0.06, True), (-0.01, 0.05, True)])
def test_hosts_are_timed_alone_unless_the_loops_are_the_same(low: float, high: float, needed: bool) -> None:
    wall = TimeRatio(effect=(low + high) / 2, low=low, high=high)
    assert needs_hosts(LoopTimes(wall=wall, cpu=wall), LIMITS) == needed
    assert needs_hosts(LoopTimes(problem="why"), LIMITS)


def test_short_trainings_have_short_turns(plan_of: Planned) -> None:
    plan = plan_of("left", text=" ")
    steps = [
        loops_in_turns._choose_steps([plan.replace(config={"steps": n})], seconds)
        for n, seconds in ((36, 0.01), (9999, 0.01), (9999, 0.2), (9999, 1.5), (9999, 30.0))
    ]
    assert steps == [1, 10, 5, 1, 1]
    assert os.path.exists(plan.directory)


def test_kept_times_of_undecided_loops_are_not_measured_again(plan_of: Planned, tmp_path: Path) -> None:
    plans = plan_of("left", text="never started"), plan_of("right", text="never started")
    loops = LoopTimes(wall=TimeRatio(effect=0.02, low=-0.02, high=0.06))
    host = HostTimes(wall=Span(effect=0.0, low=-0.01, high=0.01))
    told: list[str] = []
    assert needs_hosts(loops, LIMITS)
    assert time_loops(plans, tmp_path, LIMITS, loops, host, one_program=True, say=told.append) == (loops, host)
    assert not told
