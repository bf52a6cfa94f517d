"""Two trainings that only round differently compute one function; changes smaller than rounding are another one."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.experiments.function_figures import sizes_of
from tasks.experiments.same_function import compare_functions, say_cost_of_function
from tasks.records.function import FunctionComparison
from tasks.records.plan import RunPlan
from tasks.store.atomic import StoreError

pytestmark = pytest.mark.long

type Planned = Callable[..., RunPlan]
type Edit = tuple[str, str]
BFLOAT16 = ('up"])  # line: product', 'up"].astype(jnp.bfloat16)).astype(jnp.float32)  # line: product')


@pytest.fixture(scope="module")
def baselines() -> dict[tuple[Edit, ...], Path]:
    """The recordings of baselines by this module's tests so far: edits of both arms → folder."""
    return {}


@pytest.fixture
def compare(
    plan_of: Planned, tmp_path: Path, baselines: dict[tuple[Edit, ...], Path]
) -> Callable[..., FunctionComparison]:
    """compare(*edits of the candidate): the small trainer, which is recorded once, against its edited copy."""

    def run(*edits: Edit, both: tuple[Edit, ...] = ()) -> FunctionComparison:
        plans = plan_of("baseline", *both), plan_of("candidate", *both, *edits)
        recordings = baselines.setdefault(both, tmp_path / "baseline"), tmp_path / "candidate"
        return compare_functions(plans, ("baseline", "candidate"), tmp_path / "function", recordings)

    return run


def test_another_order_of_operations_is_one_function(compare: Callable[..., FunctionComparison]) -> None:
    found = compare(
        ("x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + epsilon)",
         "x / jnp.sqrt(jnp.sum(x * x, axis=-1, keepdims=True) / WIDTH + epsilon)"),
        both=(BFLOAT16,),
    )  # fmt: skip
    assert (found.answer, found.states) == ("same", ("step 0", "step 1", "step 2", "late"))
    assert found.gap < 1e-14
    assert found.as_run is not None
    assert found.as_run > 1e-8  # they do round differently
    assert found.type == "bf16"
    assert found.band is not None
    assert found.band.rms > 0


@pytest.mark.long
@pytest.mark.parametrize(
    "edit",
    [
        ("epsilon=1e-5", "epsilon=1.001e-5"),
        *(
            pytest.param(edit, marks=pytest.mark.by_hand)
            for edit in (
                ("0.1 * w)", "0.1000001 * w)"),
                (
                    "kept = jax.random.bernoulli(key, 0.9,",
                    "kept = jax.random.bernoulli(jax.random.fold_in(key, 1), 0.9,",
                ),
                ("m = 0.9 * m + 0.1 * g", "m = 0.9 * m + 0.1000001 * g"),
                ("    return x + jnp.where", "    return x * 1.0000001 + jnp.where"),
            )
        ),
    ],
)
def test_a_change_below_rounding_is_another_function(compare: Callable[..., FunctionComparison], edit: Edit) -> None:
    found = compare(edit, both=(BFLOAT16,))
    assert found.answer == "another"
    assert found.gap > 1e-10
    assert found.gaps[0].state == "step 0"


def test_a_changed_momentum_shows_at_the_second_step(
    compare: Callable[..., FunctionComparison], tmp_path: Path
) -> None:
    """At step 0 the moment is 0, so its factor has no effect. A second call measures nothing."""
    change = ("m = 0.9 * m", "m = 0.91 * m")
    found = compare(change)
    assert found.answer == "another"
    assert found.gaps[0].state == "step 1"
    before = (tmp_path / "function" / "function.json").stat().st_mtime_ns
    assert compare(change) == found
    assert (tmp_path / "function" / "function.json").stat().st_mtime_ns == before


@pytest.mark.by_hand
def test_one_step_that_differs_is_found_where_the_losses_part(plan_of: Planned, tmp_path: Path) -> None:
    """The weights stand still in the sixth step, which is none of those that are evaluated in any case."""
    stands = (
        '{"params": jax.tree.map(lambda new, old: jnp.where(state["step"] == 5, old, new), both[0], state["params"]), '
    )
    plans = plan_of("baseline"), plan_of("candidate", ('{"params": both[0], ', stands))
    eight = [plan.replace(config={**plan.config, "steps": 8}) for plan in plans]
    found = compare_functions((eight[0], eight[1]), ("baseline", "candidate"), tmp_path / "function")
    assert found.states == ("step 0", "step 1", "step 2", "step 4", "step 6", "late", "step 3", "step 5")
    assert (found.answer, found.gaps[0].state) == ("another", "step 5")


def test_a_metric_that_only_the_candidate_computes_differs_by_all_of_it() -> None:
    """MaxText lost its experts' balancing loss in scanned layers: 0, and 0.022 after the repair."""
    (size,) = sizes_of([{"role": "metric", "meaning": "moe_lb_loss", "norm": 0.0, "float64": 0.022}])
    assert 0.9 < 0.022 / size <= 1


def test_an_arm_that_does_not_train_is_named(plan_of: Planned, tmp_path: Path) -> None:
    plans = plan_of("baseline"), plan_of("candidate", text="print('nothing')")
    found = compare_functions(plans, ("main", "feat/x"), tmp_path / "function")
    assert found.answer == "not evaluated"
    assert "the step of feat/x was not recorded" in found.sentence


@pytest.mark.long
def test_a_step_that_calls_python_is_named(compare: Callable[..., FunctionComparison]) -> None:
    read = """jax.pure_callback(lambda: __import__("numpy").float32(1), jax.ShapeDtypeStruct((), "float32"))"""
    found = compare(("    scale = 0.5", f"    scale = 0.5 * {read}"))
    assert found.answer == "not evaluated"
    assert "calls Python" in found.sentence


@pytest.mark.by_hand
def test_a_call_of_python_that_returns_nothing_changes_no_result(compare: Callable[..., FunctionComparison]) -> None:
    found = compare(("    scale = 0.5", "    jax.debug.callback(lambda v: None, logits)\n    scale = 0.5"))
    assert found.answer == "same"


SPREAD = (
    "        state, loss = step(",
    """        devices = jax.sharding.Mesh(jax.devices(), ("data",))
        x = jax.device_put(x, jax.sharding.NamedSharding(devices, jax.sharding.PartitionSpec("data")))
        state = jax.device_put(state, jax.sharding.NamedSharding(devices, jax.sharding.PartitionSpec()))
        state, loss = step(""",
)


@pytest.mark.long
def test_four_devices_compute_the_function_of_one(plan_of: Planned, tmp_path: Path) -> None:
    plans = plan_of("baseline"), plan_of("candidate", SPREAD)
    four = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    spread = plans[1].replace(environment={**plans[1].environment, **four})
    found = compare_functions((plans[0], spread), ("one", "four"), tmp_path / "function")
    assert (found.answer, found.devices) == ("same", 4)
    assert found.gap < 1e-13


@pytest.mark.by_hand
def test_nan_is_named(compare: Callable[..., FunctionComparison]) -> None:
    found = compare(("scale = 0.5", "scale = jnp.log(-1.0)"))
    assert found.answer == "not evaluated"
    assert "NaN" in found.sentence


@pytest.mark.long
def test_other_parameters_are_named(compare: Callable[..., FunctionComparison]) -> None:
    found = compare(("2 * WIDTH), ", "3 * WIDTH), "), ("(LAYERS, 2 * WIDTH", "(LAYERS, 3 * WIDTH"))
    assert found.answer == "not evaluated"
    assert "layers.up" in found.sentence


KERNEL = """
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl
def double(x, o):
    o[...] = x[...] * 2.0
def forward(x):
    if jax.default_backend() != "tpu":
        return x
    return pl.pallas_call(double, jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
def train_step(w, x):
    return w - 0.1 * x.T @ forward(x @ w), jnp.mean(x @ w)
step = jax.jit(train_step)
w, x = jnp.ones((4, 4)), jnp.ones((2, 4))
for _ in range(6): w, loss = step(w, x)
"""


@pytest.mark.parametrize(
    ("candidate", "answer"),
    [(("x[...] * 2.0", "x[...] + x[...]"), "same"), (("x[...] * 2.0", "x[...] * 2.0000002"), "another")],
)
def test_a_tpu_kernel_is_evaluated_here(plan_of: Planned, tmp_path: Path, candidate: Edit, answer: str) -> None:
    """The trainer takes its path for TPUs, and the kernel runs interpreted."""
    texts = KERNEL, KERNEL.replace(*candidate)
    plans = [
        plan.replace(config={**plan.config, "hardware": "tpu", "steps": 6})
        for plan in (plan_of(arm, text=text) for arm, text in zip(("baseline", "candidate"), texts, strict=True))
    ]
    found = compare_functions((plans[0], plans[1]), ("baseline", "candidate"), tmp_path / "function")
    assert (found.answer, found.gap > 1e-12) == (answer, answer == "another")


def test_a_step_whose_results_are_no_known_arguments_is_named(plan_of: Planned, tmp_path: Path) -> None:
    """After one call nothing tells that the first result is the next weight: a chain would repeat the first step."""
    text = KERNEL.replace("range(6)", "range(1)")
    plans = plan_of("baseline", text=text), plan_of("candidate", text=text.replace("0.1 *", "0.2 *"))
    found = compare_functions(plans, ("baseline", "candidate"), tmp_path / "function")
    assert (found.answer, "argument of the next" in found.sentence) == ("not evaluated", True)


def test_the_cost_is_that_of_the_newest_comparison_of_the_case(tmp_path: Path) -> None:
    def kept(case: str, name: str, seconds: float | None, age: int) -> Any:
        folder = tmp_path / "comparisons" / "mine" / case / name
        folder.mkdir(parents=True)
        (folder / "comparison.json").touch()
        os.utime(folder / "comparison.json", (1e9 - age, 1e9 - age))

        def read() -> Any:
            if seconds is None:
                raise StoreError("damaged")
            return SimpleNamespace(function=SimpleNamespace(seconds=seconds))

        return SimpleNamespace(path=folder, comparison=folder / "comparison.json", read_comparison=read)

    found = [kept("06_moe", "a", 90.0, 3), kept("06_moe", "b", 253.4, 2), kept("01_base", "c", 12.0, 1)]
    store: Any = SimpleNamespace(comparisons=lambda: iter(found))
    assert "float64: 253 s the last time, at most 15 minutes" in say_cost_of_function(store, "mine", "06_moe")
    assert say_cost_of_function(store, "other", "06_moe").endswith("float64: at most 15 minutes")
    assert say_cost_of_function(None, "", "").endswith("float64: at most 15 minutes")
    found.append(kept("06_moe", "d", None, 0))
    assert say_cost_of_function(store, "mine", "06_moe").endswith("float64: at most 15 minutes")
