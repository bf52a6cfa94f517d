"""A recorded step runs with donation, from its own state, with its batches; a step that cannot run says why."""

import gzip
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxview_probe.observe import observation_files as files
from maxview_probe.turns.timed_program import TimedProgram

pytestmark = pytest.mark.flows

RATE = 0.5


def step(params: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    w = params["w"] - RATE * batch["inputs"].mean()
    return {"w": w}, w.sum()


def record(folder: Path, *, feeds: bool = True, platform: str = "cpu", text: str = "") -> Path:
    folder.mkdir()
    params, batches = {"w": jnp.zeros(4)}, [{"inputs": jnp.full(3, float(n))} for n in (1, 2, 3)]
    lowered = jax.jit(step, donate_argnums=0).lower(params, batches[0])
    files.write_packed(folder / files.PROGRAM, text or lowered.as_text(debug_info=True))
    names = ["params['w']", "batch['inputs']"]
    files.write_arrays(folder / files.ARGUMENTS, names, [np.zeros(4, np.float32), np.asarray(batches[0]["inputs"])])
    for number, batch in enumerate(batches[1:], 1):
        files.write_arrays(files.batch_file(folder, number), names[1:], [np.asarray(batch["inputs"])])
    record = {"platform": platform, "kept": [0, 1], "feeds": [0, None] if feeds else [None, None]}
    (folder / files.OBSERVATION).write_text(json.dumps(record))
    return folder


def test_a_step_goes_on_from_its_own_state_with_the_next_batch(tmp_path: Path) -> None:
    program = TimedProgram(record(tmp_path / "a"))
    program.load()  # two steps of warm-up: batches 1 and 2
    turn = program.turn(2)  # batches 3 and 1
    assert turn.wall_s > 0
    np.testing.assert_allclose(program.arguments[0], np.full(4, -RATE * (1 + 2 + 3 + 1)))
    program.unload()
    program.load()
    np.testing.assert_allclose(program.arguments[0], np.full(4, -RATE * (1 + 2)))  # anew


def test_every_load_is_another_executable(tmp_path: Path) -> None:
    program = TimedProgram(record(tmp_path / "a"))
    program.load()
    first = program.executable
    program.load()
    assert program.executable is not first


def test_a_recording_that_shows_no_state_is_refused(tmp_path: Path) -> None:
    folder = record(tmp_path / "a", feeds=False)
    with pytest.raises(ValueError, match="train two steps or more"):
        TimedProgram(folder)


def test_a_program_for_another_device_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="its program is for tpu, and here is cpu"):
        TimedProgram(record(tmp_path / "a", platform="tpu"))


def test_a_program_for_more_devices_is_refused(tmp_path: Path) -> None:
    folder = record(tmp_path / "a")
    text = gzip.decompress((folder / files.PROGRAM).read_bytes()).decode()
    more = text.replace("mhlo.num_partitions = 1", f"mhlo.num_partitions = {2 * jax.device_count()}")
    assert more != text
    files.write_packed(folder / files.PROGRAM, more)
    with pytest.raises(ValueError, match="devices, and here are"):
        TimedProgram(folder)


def test_a_program_that_does_not_compile_says_why(tmp_path: Path) -> None:
    folder = record(tmp_path / "a")
    text = gzip.decompress((folder / files.PROGRAM).read_bytes()).decode()
    unknown = (
        "    %900 = stablehlo.custom_call @no_such_kernel() {has_side_effect = true} : () -> tensor<f32>\n    return "
    )
    files.write_packed(folder / files.PROGRAM, text.replace("    return ", unknown, 1))
    with pytest.raises(ValueError, match="no_such_kernel"):
        TimedProgram(folder).load()


def test_a_program_that_calls_python_is_refused(tmp_path: Path) -> None:
    folder = record(tmp_path / "a")
    text = gzip.decompress((folder / files.PROGRAM).read_bytes()).decode()
    unknown = "    %900 = stablehlo.custom_call @xla_ffi_python_cpu_callback() : () -> tensor<f32>\n    return "
    files.write_packed(folder / files.PROGRAM, text.replace("    return ", unknown, 1))
    with pytest.raises(ValueError, match="calls Python"):
        TimedProgram(folder)
