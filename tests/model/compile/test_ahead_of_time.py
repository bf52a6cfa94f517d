"""The step compiled ahead of time, by our trainer and by others: its files, and the messages if it fails."""

import gzip
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import pytest

from configs.schema import TrainConfig
from model import compile_record
from model.compile import ahead_of_time as ahead
from model.compile_record import CompileRecord, name_error, write_at_end
from model.decoder.sharding import make_mesh
from model.train.api import make_api
from model.train.step import declare_state, lower_step, make_program
from tasks.records.compiled import FILE, LOWERED, OPTIMISED, CompiledProgram

pytestmark = pytest.mark.flows

type MiniConfig = Callable[..., TrainConfig]
type MiniArguments = Callable[..., list[str]]
GIB = 2**30
REPOSITORY = Path(compile_record.__file__).parent.parent
OVERFLOW = (
    "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO "
    "temporaries (234.63G) exceeds available HBM (31.24G). HLO module: jit_train_step."
)


def read(folder: Path) -> CompiledProgram:
    return CompiledProgram.model_validate_json((folder / FILE).read_text())


@pytest.mark.long
def test_it_is_the_trained_step(mini_config: MiniConfig, tmp_path: Path) -> None:
    config, devices = mini_config(), jax.devices()
    mesh, api = make_mesh(config), make_api(config)
    setup = declare_state(config, api, mesh)
    trained = make_program(setup, lower_step(setup))
    record = CompileRecord(tmp_path, "v6e:2x4", 31 * GIB, len(devices))
    with write_at_end(record):
        ahead.compile_ahead(config, devices, record)
    found = read(tmp_path)
    assert found.fingerprints is not None
    assert found.fingerprints.lowered == trained.stablehlo_sha256
    assert found.fingerprints.optimised == trained.hlo_sha256
    assert found.memory is not None
    assert found.memory.total == found.memory.argument + found.memory.output + found.memory.temp - found.memory.alias
    # the state and a batch are all arguments of the step, apart from the padding of small arrays
    assert sum(array.bytes_per_device for array in found.arrays) == pytest.approx(found.memory.argument, rel=0.05)
    weights = [array.bytes_per_device for array in found.arrays]
    assert weights == sorted(weights, reverse=True)
    assert next(a for a in found.arrays if a.path.endswith("mu/params/decoder/layers/mlp/wo/kernel")).sharding == (
        "(-, -, fsdp)"
    )
    assert "loc(" in gzip.decompress((tmp_path / LOWERED).read_bytes()).decode()
    assert gzip.decompress((tmp_path / OPTIMISED).read_bytes()).startswith(b"HloModule jit_train_step")


def test_an_error_is_stored_and_an_earlier_compiles_output_is_removed(tmp_path: Path) -> None:
    (tmp_path / OPTIMISED).write_text("of yesterday")
    with pytest.raises(RuntimeError), write_at_end(CompileRecord(tmp_path, "v6e:2x2", 31 * GIB, 4)):
        raise RuntimeError(OVERFLOW)
    found = read(tmp_path)
    assert not found.ok
    assert found.error is not None
    assert (found.error.type, found.error.message) == ("HbmOverflow", OVERFLOW)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize(
    "message",
    [
        OVERFLOW,
        "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 40.10G of "
        "31.25G hbm. Exceeded hbm capacity by 8.86G.",
    ],
)
def test_out_of_memory_is_distinguished_from_other_failures(message: str) -> None:
    assert name_error(RuntimeError(message)) == "HbmOverflow"
    assert name_error(NotImplementedError("Pure NNX support")) == "NotImplementedError"
    assert name_error(RuntimeError("RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem.")) == "RuntimeError"


def test_wrong_input_leaves_no_files(
    mini_arguments: MiniArguments, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ["--out", str(tmp_path / "out"), "--topology"]
    assert ahead.main([*mini_arguments(hardware="tpu"), *place, "v6e-32"]) == 2
    assert "'v6e-32'; there are: v5e: 1x1," in capsys.readouterr().err
    assert ahead.main([*mini_arguments(), *place, "v6e:2x2"]) == 2
    assert "hardware=cpu, but the devices are tpu" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "libtpu", None)
    assert ahead.main([*mini_arguments(hardware="tpu"), *place, "v6e:2x2"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("libtpu")
    assert line.endswith(": uv sync --extra tpu")
    assert not (tmp_path / "out").exists()


OTHER = """
import sys, jax, jax.numpy as jnp
jax.jit(lambda x: x * 2)(1.0)  # not the step
if sys.argv[1] == "fail":
    raise NotImplementedError("not for this")
jax.jit(lambda state, unused: {"w": state["w"] + 1}, donate_argnums=0).lower({"w": jnp.zeros((8, 4))}, 1.0).compile()
sys.exit(0)
"""


@pytest.mark.parametrize("word", ["compile", "fail"])
def test_another_trainers_own_compile_is_recorded(word: str, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(OTHER)
    argv = [sys.executable, "-P", compile_record.__file__, "--out", str(tmp_path / "out"), "--topology", "v6e:2x2"]
    argv += ["--devices", "4", "--hbm-bytes", str(31 * GIB), "other", word, "key=value"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=120)
    found = read(tmp_path / "out")
    if word == "fail":
        assert ended.returncode == 1
        assert found.error is not None
        assert (found.error.type, found.error.message) == ("NotImplementedError", "not for this")
        return
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[:2] == ["lowering", "compiling for v6e:2x2, 4 devices"]
    (array,) = found.arrays  # the compiler drops unused arguments
    assert (array.path, array.shape, array.dtype, array.bytes_per_device) == ("[0][0]['w']", (8, 4), "float32", 128)
    assert found.memory is not None
    assert found.memory.alias == 128  # it was donated


LOWER = """
import sys
from pathlib import Path
import jax
from configs.load import load_train_config
from model.compile_record import sha256, strip_stablehlo
from model.train.data_source import batch_shape
from model.train.api import make_api
from model.decoder.sharding import make_mesh
from model.train.step import compile_settings, declare_state
jax.config.update("jax_platforms", "cpu")
for pure_nnx in ("true", "false"):
    config = load_train_config(Path(sys.argv[1]), [*sys.argv[2:], f"pure_nnx={pure_nnx}"])
    mesh, api = make_mesh(config), make_api(config)
    setup = declare_state(config, api, mesh)
    with compile_settings(setup):
        traced = jax.jit(api.train_step).trace(setup.arrays, batch_shape(config, mesh))
    print(sha256(strip_stablehlo(traced.lower(lowering_platforms=("tpu",)).as_text())))
"""


def test_a_kernel_imported_late_does_not_change_the_program(mini_arguments: MiniArguments) -> None:
    # in a separate process, NNX first: modules that JAX has already loaded and traced would hide it
    words = mini_arguments("03_dropout", hardware="tpu", attention="flash", head_dim=128, max_target_length=128)
    argv = [sys.executable, "-c", LOWER, *words]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr
    nnx, linen = ended.stdout.split()
    assert nnx == linen


SPLASH = "jax.experimental.pallas.ops.tpu.splash_attention"


@pytest.mark.long
@pytest.mark.by_hand
def test_the_checkouts_folder_and_lines_do_not_change_the_program_of_flash_attention(
    mini_arguments: MiniArguments, tmp_path: Path
) -> None:
    # a trainer with its own copy of the kernel, as MaxText has one
    kernel = Path(importlib.import_module(f"{SPLASH}.splash_attention_kernel").__file__ or "").read_text()
    constant = "DEFAULT_MASK_VALUE = -0.7 *"
    assert constant in kernel
    kernels = {
        "a": kernel,
        "b/below": "# a comment\n" * 10 + kernel,
        "changed": kernel.replace(constant, "DEFAULT_MASK_VALUE = -0.6 *"),
    }
    words = mini_arguments("15_flash_attention", hardware="tpu", head_dim=128, max_target_length=128)
    started = {}
    for name, text in kernels.items():
        checkout = tmp_path / name
        for package in ("configs", "model"):
            shutil.copytree(REPOSITORY / package, checkout / package)
        attention = checkout / "model/decoder/attention.py"
        attention.write_text(
            attention.read_text().replace(
                f"from {SPLASH} import splash_attention_kernel", "from model.decoder import splash_attention_kernel"
            )
        )
        (checkout / "model/decoder/splash_attention_kernel.py").write_text(text)
        argv = [sys.executable, "-c", LOWER, *words]
        started[name] = subprocess.Popen(argv, cwd=checkout, stdout=subprocess.PIPE, text=True)
    programs = {name: process.communicate(timeout=300)[0].split() for name, process in started.items()}
    assert [len(program) for program in programs.values()] == [2, 2, 2]  # NNX and Linen
    assert programs["a"] == programs["b/below"]
    assert programs["a"] != programs["changed"]


@pytest.mark.long
@pytest.mark.tpu
@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="needs libtpu: uv sync --extra tpu")
def test_both_apis_are_one_program_on_a_slice(mini_arguments: MiniArguments, tmp_path: Path) -> None:
    found = {}
    for nnx in ("false", "true"):
        out = tmp_path / nnx
        words = mini_arguments(
            "03_dropout",
            hardware="tpu",
            pure_nnx=nnx,
            max_target_length=128,
            head_dim=128,
            attention="flash",
            per_device_batch_size=1,
        )
        argv = [sys.executable, "-m", "model.compile", *words, "--out", str(out), "--topology", "v6e:2x2"]
        ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=600)
        assert ended.returncode == 0, ended.stderr
        found[nnx] = read(out)
    linen, nnx_program = found["false"], found["true"]
    assert linen.fingerprints == nnx_program.fingerprints
    assert linen.memory == nnx_program.memory
    assert linen.memory is not None
    assert 0 < linen.memory.total < linen.hbm_bytes
    text = gzip.decompress((tmp_path / "true" / OPTIMISED).read_bytes()).decode()
    assert "tpu_custom_call" in text  # the kernel of a real TPU
