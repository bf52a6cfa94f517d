"""Both host loops are timed without their step's program, however the trainer calls it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.experiments.host_loops import time_host_loops
from tasks.records.host_times import HostTimes
from tasks.records.plan import RunPlan

pytestmark = pytest.mark.flows

type Planned = Callable[..., RunPlan]
SIZE = 1500  # 64 products of this size take a second and more
LOOP = f"""
import time, jax, jax.numpy as jnp
def train_step(w, x):
    for _ in range(32):
        w = w - 0.1 * x.T @ (x @ w) / {SIZE}
    return w, jnp.sum(w)
w, x = jnp.ones(({SIZE}, {SIZE})), jnp.ones(({SIZE}, {SIZE}))
CALL
for n in range(40):
    w, loss = step(w, x)
    print(float(loss))
    time.sleep(0.0)
"""
CALLS = {
    "jit": "step = jax.jit(train_step, donate_argnums=0)",
    "compiled ahead of time": "step = jax.jit(train_step).lower(w, x).compile()",
    "a static argument": "from functools import partial\n"
    "jitted = partial(jax.jit, static_argnames=('n',))(lambda w, x, n: train_step(w, x)[:n])\n"
    "step = lambda w, x: jitted(w, x, n=2)",
}


@pytest.fixture
def timed(plan_of: Planned, tmp_path: Path) -> Callable[..., HostTimes]:
    """timed(call, candidate's edit): the times of the loop and of the edited loop."""

    def time_loops(call: str, old: str = "", new: str = "") -> HostTimes:
        text = LOOP.replace("CALL", call)
        assert old in text
        plans = plan_of("left", text=text), plan_of("right", text=text.replace(old, new))
        return time_host_loops(plans, tmp_path / "o", chance=0.005)

    return time_loops


@pytest.mark.parametrize("call", ["jit", *(pytest.param(name, marks=pytest.mark.long) for name in list(CALLS)[1:])])
def test_a_sleep_of_the_host_is_found_and_the_program_takes_no_time(call: str, timed: Callable[..., HostTimes]) -> None:
    found = timed(CALLS[call], "time.sleep(0.0)", "time.sleep(0.05)")
    assert not found.problem
    assert found.wall is not None
    assert found.wall_s[0] < 0.05
    assert found.wall.low > 0.02
    assert found.wall.high < 0.2
    assert found.cpu is not None
    assert found.cpu.low < 0.01  # it slept


@pytest.mark.long
def test_a_host_that_sleeps_in_every_fifth_step_is_slower(timed: Callable[..., HostTimes]) -> None:
    found = timed(CALLS["jit"], "time.sleep(0.0)", "time.sleep(0.3 * (n % 5 == 0))")
    assert found.wall is not None
    assert found.wall.effect > 0.02
    assert found.wall.high > 0.05


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param(
            "range(40)",
            "range(12)",
            "only 1 steps of a host loop could be timed: train more steps",
            marks=pytest.mark.long,
        ),
        ("step(w, x)", "1 / 0", "the host loop of right was not seen"),
    ],
)
def test_a_loop_that_cannot_be_timed_is_one_sentence(
    old: str, new: str, said: str, timed: Callable[..., HostTimes]
) -> None:
    found = timed(CALLS["jit"], old, new)
    assert said in found.problem
    assert found.wall is None


@pytest.mark.long
def test_equal_plans_are_timed_once(timed: Callable[..., HostTimes], tmp_path: Path) -> None:
    first = timed(CALLS["jit"])
    stamp = (tmp_path / "o" / "host-loops.json").stat().st_mtime_ns
    assert timed(CALLS["jit"]) == first
    assert (tmp_path / "o" / "host-loops.json").stat().st_mtime_ns == stamp
