"""A program that was compiled before is not compiled again; a different one is; a dead process blocks no other."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Timer

import jax
import jax.numpy as jnp
import pytest

from configs.schema import TrainConfig
from model.compile.compile_once import compile_once, find_key
from model.compile_record import OPTIMISED, CompileRecord, write_at_end
from model.decoder.sharding import make_mesh
from model.train.api import make_api
from model.train.step import compile_lowered, declare_state, lower_step
from tasks.records.compiled import FILE, CompiledProgram

pytestmark = pytest.mark.flows

type MiniArguments = Callable[..., list[str]]
type Step = Callable[..., object]


def linen_step(state: jax.Array) -> dict[str, jax.Array]:
    return {"params": jnp.tanh(state) @ state}


def nnx_step(state: jax.Array) -> dict[str, jax.Array]:
    return {"model": jnp.tanh(state) @ state}  # the same function under another name and at another line


def planted_step(state: jax.Array) -> dict[str, jax.Array]:
    return {"model": jnp.tanh(state) @ state * 2}


def lower(step: Step, **settings: object) -> jax.stages.Lowered:
    def train_step(state: jax.Array) -> list[jax.Array]:
        return jax.tree.leaves(step(state))

    return jax.jit(train_step, **settings).lower(jax.ShapeDtypeStruct((8, 8), "float32"))  # type: ignore[call-overload]


def compile_arm(out: Path, step: Step, **settings: object) -> CompiledProgram:
    lowered = lower(step, **settings)
    record = CompileRecord(out, "v6e:2x2", 31 * 2**30, 4)
    with write_at_end(record):
        record.write_lowered(lowered, None)
        compile_once(record, lowered, lowered.compile, out.parent / "programs")
    return CompiledProgram.model_validate_json((out / FILE).read_bytes())


def test_equal_programs_are_compiled_once(tmp_path: Path) -> None:
    linen, nnx = compile_arm(tmp_path / "linen", linen_step), compile_arm(tmp_path / "nnx", nnx_step)
    assert (linen.taken_from, nnx.taken_from) == (None, "linen")
    assert linen.compiler_key == nnx.compiler_key
    assert linen.memory == nnx.memory
    assert linen.fingerprints == nnx.fingerprints
    assert (tmp_path / "linen" / OPTIMISED).read_bytes() == (tmp_path / "nnx" / OPTIMISED).read_bytes()


@pytest.mark.parametrize(
    "changed",
    [
        {"step": planted_step},
        {"donate_argnums": 0},
        {"compiler_options": {"xla_llvm_disable_expensive_passes": True}},  # not visible in the program's text
    ],
)
def test_different_programs_are_compiled_separately(changed: dict[str, object], tmp_path: Path) -> None:
    linen = compile_arm(tmp_path / "linen", linen_step)
    nnx = compile_arm(tmp_path / "nnx", **({"step": nnx_step} | changed))  # type: ignore[arg-type]
    assert nnx.taken_from is None
    assert nnx.compiler_key != linen.compiler_key


def test_both_apis_pass_the_same_program_to_the_compiler(mini_config: Callable[..., TrainConfig]) -> None:
    keys = set()
    for config in (mini_config(pure_nnx=False), mini_config(pure_nnx=True)):
        mesh, api = make_mesh(config), make_api(config)
        setup = declare_state(config, api, mesh)
        keys.add(find_key(partial(compile_lowered, setup, lower_step(setup))))
    assert len(keys) == 1


def test_compiler_flags_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = find_key(lower(linen_step).compile)
    monkeypatch.setenv("LIBTPU_INIT_ARGS", "--xla_tpu_enable_latency_hiding_scheduler=false")
    assert find_key(lower(linen_step).compile) != before


HOLD = """
import fcntl, sys, time
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""


def test_the_next_process_compiles_if_the_first_dies(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    key = find_key(lower(nnx_step).compile)
    (programs / key).mkdir()
    (programs / key / OPTIMISED).write_bytes(b"half")  # it was killed while writing
    argv = [sys.executable, "-c", HOLD, str(programs / f"{key}.lock")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        Timer(0.3, first.kill).start()
        nnx = compile_arm(tmp_path / "nnx", nnx_step)
        assert first.wait() == -9
    assert nnx.taken_from is None
    assert json.loads((programs / key / "kept.json").read_text())["compiled_as"] == "nnx"
    assert (programs / key / OPTIMISED).read_bytes() == (tmp_path / "nnx" / OPTIMISED).read_bytes()


@pytest.mark.long
@pytest.mark.tpu
@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="needs libtpu: uv sync --extra tpu")
def test_two_arms_at_once_are_one_compile_for_a_slice(mini_arguments: MiniArguments, tmp_path: Path) -> None:
    environment = os.environ | {"MAXVIEW_PROGRAMS": str(tmp_path / "programs")}
    with ExitStack() as running:
        started = []
        for arm, nnx in (("linen", "false"), ("nnx", "true")):
            words = mini_arguments(hardware="tpu", pure_nnx=nnx)
            argv = [
                sys.executable,
                "-m",
                "model.compile",
                *words,
                "--out",
                str(tmp_path / arm),
                "--topology",
                "v6e:2x2",
            ]
            process = subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True)
            running.callback(process.kill)
            started.append(process)
        for process in started:
            _, reported = process.communicate(timeout=600)
            assert process.returncode == 0, reported
    arms = [CompiledProgram.model_validate_json((tmp_path / arm / FILE).read_bytes()) for arm in ("linen", "nnx")]
    assert [arm.taken_from for arm in arms] in ([None, "linen"], ["nnx", None])
    assert arms[0].fingerprints == arms[1].fingerprints
