"""The record of a trainer's step, the message if there is none, and the unchanged judged run."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tasks.experiments.observe_arm import observe_arm
from tasks.launch.local.process_group import build_environment, run_to_end
from tasks.programs.source_lines import read_optimised
from tasks.records.observation import OPTIMISED
from tasks.records.plan import RunPlan
from tasks.resolve.stand_ins import keep_hardware
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

type Planned = Callable[..., RunPlan]
STEP = """
import jax, jax.numpy as jnp
def train_step(w, x):
    return w - 0.1 * jax.grad(lambda w: jnp.sum((x @ w) ** 2))(w)
w, x = jnp.ones((4, 4)), jnp.ones((2, 4))
"""
KILLED_WHILE_OBSERVED = """
import jax, jax.numpy as jnp, os, signal
def train_step(w, x):
    jax.debug.callback(lambda: os.kill(os.getpid(), signal.SIGKILL))
    return w - 0.1 * (x.T @ (x @ w))
jax.jit(train_step)(jnp.ones((4, 4)), jnp.ones((2, 4)))
"""


def test_program_arguments_results_and_tensors_of_the_first_step(plan_of: Planned, tmp_path: Path) -> None:
    found = observe_arm(plan_of("arm"), tmp_path / "o")
    assert (found.step, found.notes) == ("train_step", ())
    assert {(a.role, a.meaning) for a in found.arguments} >= {
        ("parameter", "layers.up"), ("optimizer", "mu.layers.up"), ("counter", "step"), ("data", "x"),
    }  # fmt: skip
    assert all(a.donated for a in found.arguments if a.role == "parameter")
    assert not any(a.donated for a in found.arguments if a.role == "data")
    up = next(a for a in found.arguments if a.meaning == "layers.up")
    stored = np.load(tmp_path / "o" / "arguments.npz")
    (values,) = [stored[name] for name in stored.files if name.endswith("['params']['layers']['up']")]
    assert up.norm == pytest.approx(float(np.linalg.norm(values.astype(np.float64))))
    assert {"observation.json", "step.mlir.gz", "step.hlo.gz", "tensors.jsonl.gz"} <= {
        path.name for path in (tmp_path / "o").iterdir()
    }
    assert (
        "step 0 loss" not in (tmp_path / "o" / "observation.log").read_text()
    )  # the observed process ends after its step


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("print('no JAX here')", "imported no JAX"),
        ("import jax; print(jax.numpy.ones(3))", "calls no jitted function"),
        ("import jax; print(jax.jit(lambda x: x + 1)(1.0))", "none returns what it trains"),
        ("import jax, os, signal; os.kill(os.getpid(), signal.SIGKILL)", "exit code 137"),
        (STEP + "jax.jit = lambda f: f\nfor _ in range(2): w = jax.jit(train_step)(w, x)", "replaced jax.jit"),
        ("import jax; raise SystemExit(3)", "exit code 3"),
        ("import jax; raise ValueError('cannot read txt')", "before its training step: ValueError: cannot read txt"),
        (KILLED_WHILE_OBSERVED, "exit code 137"),
    ],
)
def test_a_trainer_without_a_step_is_one_sentence(program: str, said: str, plan_of: Planned, tmp_path: Path) -> None:
    found = observe_arm(plan_of("arm", text=program), tmp_path / "o")
    assert found.step is None
    assert said in " ".join(found.notes)


@pytest.mark.long
@pytest.mark.parametrize(
    "call",
    [
        "step = jax.jit(train_step, donate_argnums=0)\nw = step(w, x)",
        "step = jax.jit(train_step).lower(w, x).compile()\nw = step(w, x)",
        "import functools\njit = functools.partial(jax.jit, static_argnames=('n',))\n"
        "step = jit(lambda w, x, n: train_step(w, x) * n)\nw = step(w, x, n=1)",
        "step = jax.jit(lambda n, w, x: train_step(w, x) * n, static_argnums=0)\nw = step(1, w, x)",
        "old = jax.jit\njax.jit = lambda f, **k: old(f, **k)\nw = jax.jit(train_step)(w, x)",
        "class T:\n    @jax.jit\n    def go(w, x): return train_step(w, x)\nw = T.go(w, x)",
    ],
)
def test_every_way_to_compile_a_step_is_observed(call: str, plan_of: Planned, tmp_path: Path) -> None:
    found = observe_arm(plan_of("arm", text=STEP + call), tmp_path / "o")
    assert found.step is not None, found.notes
    assert found.tensors > 3
    assert [(a.shape, a.dtype) for a in found.arguments] == [((4, 4), "float32"), ((2, 4), "float32")]
    assert len(found.results) == 1


@pytest.mark.parametrize(("function", "objects"), [("lambda w, x: train_step(w, x)", 3), ("train_step", 0)])
def test_functions_that_are_jitted_anew_in_each_step_are_counted_by_line(
    function: str, objects: int, plan_of: Planned, tmp_path: Path
) -> None:
    text = STEP + f"for _ in range(4):\n    w = jax.jit({function})(w, x)"
    found = observe_arm(plan_of("arm", text=text), tmp_path / "o", tensors=False, profile=(0, 3))
    assert found.loop is not None
    line = text.splitlines().index(f"    w = jax.jit({function})(w, x)") + 1
    assert [(jit[1], jit[2], jit[4]) for jit in found.loop.jits] == ([(line, "<module>", objects)] if objects else [])


def test_a_failure_of_the_recorder_does_not_fail_the_trainer(plan_of: Planned, tmp_path: Path) -> None:
    text = STEP + "import numpy\nnumpy.savez = None\nw = jax.jit(train_step)(w, x)"
    found = observe_arm(plan_of("arm", text=text), tmp_path / "o")
    assert found.step == "train_step"
    assert any("the arguments cannot be written" in note for note in found.notes)
    assert found.tensors > 3


def test_an_arm_without_python_is_one_sentence(plan_of: Planned, tmp_path: Path, wording: Wording) -> None:
    plan = plan_of("arm").replace(argv=("echo", "step 0 loss 1.0"))
    found = observe_arm(plan, tmp_path / "o")
    assert found.step is None
    (note,) = found.notes
    assert "PYTHONPATH" in note
    wording("reasons", note)


@pytest.mark.long
def test_a_judged_run_is_the_same_with_and_without_an_observation(plan_of: Planned, tmp_path: Path) -> None:
    plan, folder = plan_of("arm"), tmp_path / "out" / "runs" / "arm"

    def train() -> list[str]:
        log = folder / "log.txt"
        log.unlink(missing_ok=True)
        run_to_end(plan, log)
        return re.findall(r"loss (\S+)", log.read_text())

    def kept() -> dict[str, tuple[bytes, int]]:
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}

    losses, before = train(), kept()
    assert len(losses) == 3
    assert observe_arm(plan, tmp_path / "o", profile=(1, 2)).step
    assert kept() == before  # its log, its times, its files
    assert train() == losses


def test_lines_are_the_observed_sources_even_if_jax_has_compiled_an_equal_program(
    plan_of: Planned, tmp_path: Path
) -> None:
    cache = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    for arm, text in (("left", STEP), ("right", "\n" * 30 + STEP)):
        plan = plan_of(arm, text=text + "w = jax.jit(train_step)(w, x)")
        plan = plan.replace(environment={**plan.environment, **cache})
        observe_arm(plan, tmp_path / arm, tensors=False)
    lines = [
        {one.source.line for one in read_optimised(tmp_path / arm / OPTIMISED).located.values() if one.source.line}
        for arm in ("left", "right")
    ]
    assert lines[0]
    assert lines[1] == {line + 30 for line in lines[0]}


def test_an_arm_in_an_image_is_not_observed(plan_of: Planned, tmp_path: Path) -> None:
    plan = plan_of("arm").replace(backend="xpk")
    found = observe_arm(plan, tmp_path / "o")
    assert found.notes == ("arm runs on a cluster, and is not observed",)
    assert not (tmp_path / "o").exists()


def test_the_process_gets_the_same_environment_as_a_judged_run(plan_of: Planned, tmp_path: Path) -> None:
    plan = plan_of("arm", text="import os; print(sorted(os.environ))")
    observe_arm(plan, tmp_path / "o")
    log = (tmp_path / "o" / "observation.log").read_text()
    assert "MAXVIEW_OBSERVE" in log
    allowed = build_environment(plan, {"PATH": "p", "HOME": "h", "HF_TOKEN": "secret"})
    assert "HF_TOKEN" not in allowed
    assert "HF_TOKEN" not in log


def test_a_stand_in_keeps_the_hardware_of_maxviews_trainer(plan_of: Planned) -> None:
    """MaxText chooses its kernels by its devices, and takes `hardware=cpu` to start without a cluster."""
    ours = plan_of("arm").replace(trainer="maxview")
    small, run = (ours.replace(config={"hardware": name}) for name in ("cpu", "tpu"))
    kept = keep_hardware(small, run)
    assert kept.config["hardware"] == "tpu"
    assert kept.identity != small.identity
    assert keep_hardware(small, small) == small
    other = small.replace(trainer="maxtext")
    assert keep_hardware(other, run) == other
