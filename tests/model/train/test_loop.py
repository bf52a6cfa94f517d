"""The trainer as a process: log, run folder, exit status, and signals."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from configs.schema import TrainConfig
from model.train.loop import explain_non_finite
from model.train.metrics_file import read_losses
from tasks.scrape.read_log import scrape_run
from tests.wording.sentences import Wording

pytestmark = pytest.mark.long

type MiniArguments = Callable[..., list[str]]
type Start = Callable[..., "subprocess.Popen[str]"]
type Finish = Callable[..., "subprocess.CompletedProcess[str]"]

ROOT = Path(__file__).parents[3]
HELD = ROOT / "tests" / "standins" / "held"
RUN = "import runpy, wait_at_step; runpy.run_module('model.train', run_name='__main__', alter_sys=True)"
STEPS = 200
TIMEOUT_S = 600


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def start(folder: Path, mini_arguments: MiniArguments) -> Start:
    """Start a trainer on one CPU device, with both of its streams merged as launchers do.

    With `wait_at` it pauses before the end of that step until a signal arrives: all of its steps take less than a
    second. `inside`: a command prefix that becomes the trainer.
    """
    flags = "--xla_force_host_platform_device_count=1 --xla_backend_optimization_level=0"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}

    def run(
        name: str, *options: str, wait_at: int | None = None, inside: Sequence[str] = (), **changes: Any
    ) -> "subprocess.Popen[str]":
        defaults = {"steps": STEPS, "enable_dropout": True, "dropout_rate": 0.1}
        words = mini_arguments(**(defaults | changes), run_name=name, base_output_directory=folder)
        held = {"WAIT_AT_STEP": f"{name}:{wait_at}:{folder / 'never'}", "PYTHONPATH": f"{ROOT}:{HELD}"}
        trainer = ["-m", "model.train"] if wait_at is None else ["-c", RUN]
        return subprocess.Popen(
            [*inside, sys.executable, *trainer, *words, *options],
            cwd=ROOT,
            env=environment | ({} if wait_at is None else held),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return run


@pytest.fixture(scope="module")
def finish(start: Start) -> Finish:
    """Run a trainer to its end."""

    def run(name: str, *options: str, **changes: Any) -> "subprocess.CompletedProcess[str]":
        process = start(name, *options, **changes)
        output, _ = process.communicate(timeout=TIMEOUT_S)
        return subprocess.CompletedProcess(process.args, process.returncode, output)

    return run


@pytest.fixture(scope="module")
def whole(finish: Finish) -> "subprocess.CompletedProcess[str]":
    """An uninterrupted Linen run."""
    result = finish("whole", log_config=True, checkpoint_period=90)
    assert result.returncode == 0, result.stdout
    return result


def program(folder: Path, name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / name / "program.json").read_text(encoding="utf-8"))
    return record


def wait_for_step(process: "subprocess.Popen[str]", metrics: Path, step: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not metrics.exists() or metrics.read_text(encoding="utf-8").count("\n") <= step:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def committed(folder: Path, name: str) -> list[int]:
    return sorted(int(path.name) for path in (folder / name / "checkpoints").iterdir() if path.name.isdigit())


def assert_continued_bit_for_bit(folder: Path, name: str) -> None:
    losses, losses_whole = (read_losses(folder / run / "metrics.jsonl") for run in (name, "whole"))
    assert list(losses) == list(losses_whole) == list(range(STEPS))
    assert [loss.tobytes() for loss in losses.values()] == [loss.tobytes() for loss in losses_whole.values()]
    record, record_whole = program(folder, name), program(folder, "whole")
    assert record["state"] == record_whole["state"]
    assert record["initial_state"] == record_whole["initial_state"]


def test_the_log_has_maxtexts_order(whole: "subprocess.CompletedProcess[str]") -> None:
    prefixed = r"^I\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [\w.]+:\d+\] "
    patterns = [
        prefixed + r"Config param adam_b1: 0\.9$",
        prefixed + r"Config param weight_dtype: float32$",
        prefixed + r"System Information: Jax Version: \d+\.\d+\.\d+",
        prefixed + r"System Information: Jaxlib Version: ",
        prefixed + r"System Information: Jax Backend: cpu",
        prefixed + r"System Information: Device Kind: cpu$",
        prefixed + r"Num_devices: 1, shape \(1, 1, 1, 1, 1, 1\)$",
        prefixed + r"Creating checkpoint manager with ocdbt=True and zarr3=True$",
        prefixed + r"Checkpoint manager created!$",
        prefixed + r"No existing checkpoints found, not restoring checkpoint\.$",
        prefixed + r" params/params/decoder/decoder_norm/scale$\n"
        r"    Shape:     float32\[16\]$\n    Logical:   P\('norm',\)$\n    Physical:  \(None,\)$",
        prefixed + r" params/params/token_embedder/embedding$",
        prefixed + r"Total memory size: \d+\.\d GB, Output size: \d+\.\d GB, Temp size: ",
        prefixed + r"number parameters: 0\.000 billion$",
        prefixed + r"Waiting for step 0 to finish before checkpoint\.\.\.$",
        prefixed + r"Waited [\d.e-]+ seconds for step 0 to finish before starting checkpointing\.$",
        prefixed + r"\{'step': 0, 'event_type': 'save', ",
        prefixed + r"Started an asynchronous checkpoint save for step 0$",
        prefixed + r"$\nMemstats: After params initialized:$",
        prefixed + r"\tMemstats unavailable, error: ",
        prefixed + r"completed step: 0, seconds: \d+\.\d{3}, TFLOP/s/device: \d+\.\d{3}, Tokens/s/device: \d+\.\d{3}, "
        r"total_weights: 32, loss: \d\.\d{3}, lm_loss: \d\.\d{3}, perplexity: \d+\.\d{3}$",
        prefixed + r".*Finished saving checkpoint \(finalized tmp dir\) to `.*/whole/checkpoints/0`\.$",
        prefixed + r"completed step: 90, ",
        prefixed + r"Started an asynchronous checkpoint save for step 199$",
        prefixed + r"completed step: 199, ",
        prefixed + r".*Finished saving checkpoint \(finalized tmp dir\) to `.*/whole/checkpoints/199`\.$",
        r"^Per train step:$\n Total TFLOPs: 0\.00 $\n split as \d\d\.\d\d% learnable weight flops and ",
    ]
    position = 0
    for pattern in patterns:
        match = re.compile(pattern, re.MULTILINE).search(whole.stdout, position)
        assert match, f"{pattern} not found after:\n{whole.stdout[max(0, position - 500) : position + 500]}"
        position = match.end()
    steps = [int(step) for step in re.findall(r"completed step: (\d+),", whole.stdout)]
    assert steps == list(range(STEPS))


def test_the_run_folder_holds_checkpoints_metrics_and_proof(
    whole: "subprocess.CompletedProcess[str]", folder: Path
) -> None:
    assert committed(folder, "whole") == [0, 90, 180, 199]
    last = folder / "whole" / "checkpoints" / "199"
    for name in ("_CHECKPOINT_METADATA", "items/_METADATA", "items/manifest.ocdbt", "items/array_metadatas/process_0"):
        assert (last / name).exists(), name
    record = program(folder, "whole")
    assert record["implementation"] == "linen"
    assert record["num_devices"] == 1
    assert record["cross_restore"] is None
    assert record["state"]["step"] == 199
    # 12 parameters, their two moments, the optimizer's two counts and the step: the seeds' 39
    assert len(record["state"]["arrays"]) == 39
    assert len(record["initial_state"]["arrays"]) == 12
    lines = [json.loads(line) for line in (folder / "whole" / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert list(lines[0])[:2] == ["step", "loss"]
    assert {"grad_norm", "raw_grad_norm", "param_norm", "learning_rate", "step_time_s", "total_weights"} < set(lines[0])
    assert lines[0]["learning_rate"] == 0.0
    assert lines[-1]["loss"] < lines[0]["loss"]


def test_nnx_continues_a_linen_run_bit_for_bit(
    whole: "subprocess.CompletedProcess[str]", finish: Finish, folder: Path
) -> None:
    result = finish("nnx", "--continue-from", str(folder / "whole"), pure_nnx=True)
    assert result.returncode == 0, result.stdout
    record = program(folder, "nnx")
    assert record["cross_restore"] == {
        "from": "whole",
        "implementation": "linen",
        "restored_step": 0,
        "steps": STEPS - 1,
        "holds": True,
        "evidence": record["cross_restore"]["evidence"],
    }
    assert "same bits in all 39 arrays" in record["cross_restore"]["evidence"]
    assert "cross restore of" in result.stdout
    for key in ("stablehlo_sha256", "hlo_sha256", "initial_state", "state"):
        assert record[key] == program(folder, "whole")[key], key
    assert_continued_bit_for_bit(folder, "nnx")


def test_sigterm_saves_and_the_next_start_continues_bit_for_bit(
    whole: "subprocess.CompletedProcess[str]", start: Start, finish: Finish, folder: Path
) -> None:
    process = start("stopped", wait_at=4)
    wait_for_step(process, folder / "stopped" / "metrics.jsonl", 3)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 143, output
    last = max(read_losses(folder / "stopped" / "metrics.jsonl"))
    assert last < STEPS - 1
    assert committed(folder, "stopped") == [0, last]
    assert f"SIGTERM: stopped after {last + 1} of {STEPS} steps" in output
    result = finish("stopped")
    assert result.returncode == 0, result.stdout
    assert f"restoring from this run's directory step {last}" in result.stdout
    assert f"completed step: {last}," not in result.stdout
    assert_continued_bit_for_bit(folder, "stopped")


def test_a_kill_and_its_leftovers_do_no_harm(
    whole: "subprocess.CompletedProcess[str]", start: Start, finish: Finish, folder: Path
) -> None:
    process = start("killed", checkpoint_period=20, wait_at=51)
    wait_for_step(process, folder / "killed" / "metrics.jsonl", 50)
    process.kill()
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == -signal.SIGKILL
    done = len(read_losses(folder / "killed" / "metrics.jsonl"))
    last = max(committed(folder, "killed"))
    assert done < STEPS
    # the leftovers of a run that died in the middle of a save
    unfinished = folder / "killed" / "checkpoints" / f"{last + 20}.orbax-checkpoint-tmp"
    (unfinished / "items.orbax-checkpoint-tmp").mkdir(parents=True, exist_ok=True)
    result = finish("killed", checkpoint_period=20)
    assert result.returncode == 0, result.stdout
    assert f"restoring from this run's directory step {last}" in result.stdout
    assert not unfinished.exists()
    lines = (folder / "killed" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == done + STEPS - (last + 1)
    assert_continued_bit_for_bit(folder, "killed")


def test_a_diverging_run_ends_with_one_sentence(finish: Finish, folder: Path) -> None:
    """The log's reader takes that sentence as the cause; and no checkpoint contains NaN."""
    words = {"learning_rate": 1e38, "gradient_clipping_threshold": 0.0, "checkpoint_period": 1}
    ended = finish("diverged", **words)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stdout
    lines = [json.loads(line) for line in (folder / "diverged" / "metrics.jsonl").read_text("utf-8").splitlines()]
    finite = [all(isinstance(line[key], float) for key in ("loss", "param_norm")) for line in lines]
    assert finite == [True] * (len(lines) - 1) + [False]
    assert committed(folder, "diverged") == [line["step"] for line in lines[:-1]]
    (folder / "diverged.txt").write_text(ended.stdout)
    run = scrape_run(folder / "diverged.txt")
    assert run.error is not None
    assert (run.error.type, run.error.kind) == ("StopTraining", "nan")
    assert run.error.message.startswith(f"step {lines[-1]['step']}: ")
    assert "lower learning_rate (now 1e+38)" in run.error.message


def test_a_nan_loss_is_reported_before_its_consequences(
    mini_config: Callable[..., TrainConfig], wording: Wording
) -> None:
    nan = np.float32("nan")
    said = explain_non_finite(mini_config(), 2, {"loss": nan, "param_norm": nan})
    assert said.startswith("step 2: the loss is nan; ")
    assert "learning_rate (now 0.01)" in said
    wording("errors", said)
    assert "checkpoints" not in explain_non_finite(
        mini_config(enable_checkpointing=False), 2, {"loss": nan, "param_norm": nan}
    )


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        ({"stepz": 3, "steps": 0}, ("unknown key 'stepz' (did you mean 'steps'?)", "greater than 0, got 0")),
        ({"ici_fsdp_parallelism": 3}, ("ici_fsdp_parallelism=3",)),
    ],
)
def test_bad_input_is_reported_at_once_and_changes_nothing(
    changes: dict[str, Any], messages: tuple[str, ...], mini_arguments: MiniArguments, tmp_path: Path
) -> None:
    arguments = mini_arguments(**changes, base_output_directory=tmp_path / "out")
    result = subprocess.run(
        [sys.executable, "-m", "model.train", *arguments],
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert result.returncode == 2
    assert all(message in result.stderr for message in messages)
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(find_spec("jax_cuda13_plugin") is not None, reason="JAX for a GPU is installed")
def test_a_device_that_jax_cannot_find_is_one_message(finish: Finish) -> None:
    done = finish("no-gpu", inside=("env", "JAX_PLATFORMS=cuda"))
    assert done.returncode == 2
    reported = "JAX_PLATFORMS=cuda: JAX finds no such device; JAX for it is an extra: uv sync --extra cuda"
    assert reported in done.stdout.splitlines()
    assert "Traceback" not in done.stdout


def test_a_resume_with_a_changed_config_ends_with_one_sentence(finish: Finish, folder: Path) -> None:
    """A run that continued with another learning rate would differ from an uninterrupted one."""
    assert finish("relearned", steps=2).returncode == 0
    ended = finish("relearned", steps=5, resume_after_step=3, learning_rate=0.02)
    assert ended.returncode == 1, ended.stdout
    assert "Traceback" not in ended.stdout
    (folder / "relearned.txt").write_text(ended.stdout)
    run = scrape_run(folder / "relearned.txt")
    assert run.error is not None
    assert run.error.type == "StopTraining"
    said = r"the run restored after step 3 differs from an uninterrupted run in \d+ of 39 arrays, first \w+"
    assert re.match(said, run.error.message)
    assert program(folder, "relearned")["state"]["step"] == 4  # the two results can be compared


SMALL_DISK = """
mount -t tmpfs -o size=$1 none "$0" || exit 77
disk=$0; shift
"$@"; echo "ended with $?"
ls "$disk" "$disk/checkpoints"
mount -o remount,size=64m "$disk"
"$@"; code=$?
cp -a "$disk" "$disk.kept"
exit $code
"""


@pytest.fixture
def on_small_disk(finish: Finish, folder: Path) -> Callable[..., list[str]]:
    """on_small_disk(name, where, size, **changes): a run that ends on a full disk and continues with more space.

    where: the folder that is a separate disk. Returns the output of the first start.
    """

    def run(name: str, where: Path, size: str, **changes: Any) -> list[str]:
        where.mkdir(parents=True)
        inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", SMALL_DISK, str(where), size]
        result = finish(name, inside=inside, **changes)
        if result.returncode == 77 or "unshare" in result.stdout:
            pytest.skip("a disk of its own needs a user namespace")
        assert result.returncode == 0, result.stdout
        shutil.copytree(f"{where}.kept", where, dirs_exist_ok=True)
        before, ended, _ = result.stdout.partition("ended with 1\n")
        assert ended, result.stdout
        (folder / f"{name}.txt").write_text(before)
        error = scrape_run(folder / f"{name}.txt").error
        assert error is not None
        assert (error.type, error.kind) == ("StopTraining", "disk_full")
        assert error.message.startswith("No space left on device (")
        assert "base_output_directory" in error.message
        return result.stdout.splitlines()

    return run


def test_a_full_disk_ends_the_run_and_keeps_the_saved_steps(
    whole: "subprocess.CompletedProcess[str]", on_small_disk: Callable[..., list[str]], folder: Path
) -> None:
    lines = on_small_disk("full", folder / "full", "400k", checkpoint_period=10)
    assert "0" in lines[lines.index("ended with 1") :]  # committed, whichever later one was unfinished
    assert_continued_bit_for_bit(folder, "full")


@pytest.mark.parametrize(
    ("where", "size", "changes"),
    [
        ("", "4k", {}),  # space for config.yml, but not for program.json
        pytest.param(
            "lines",
            "16k",
            {"metrics_file": "{where}/metrics.jsonl", "checkpoint_period": 1},
            marks=pytest.mark.by_hand,
        ),
        pytest.param("metrics", "4k", {"gcs_metrics": True}, marks=pytest.mark.by_hand),
        pytest.param(
            "tensorboard", "4k", {"enable_tensorboard": True, "checkpoint_period": 10}, marks=pytest.mark.by_hand
        ),
        pytest.param("tensorboard", "40k", {"profiler": "xplane", "checkpoint_period": 10}, marks=pytest.mark.by_hand),
    ],
)
def test_a_disk_filled_by_other_files(
    where: str,
    size: str,
    changes: dict[str, Any],
    whole: "subprocess.CompletedProcess[str]",
    on_small_disk: Callable[..., list[str]],
    folder: Path,
) -> None:
    """If a step's line found no space, its checkpoint may exist: the step is repeated, so that no line is missing."""
    name = f"full-{where}-{size}"
    disk = folder / name / where
    words = {key: str(value).format(where=disk) for key, value in changes.items()}
    assert not [line for line in on_small_disk(name, disk, size, **words) if "Traceback" in line]
    if "metrics_file" in changes:
        shutil.copy(disk / "metrics.jsonl", folder / name)
    assert_continued_bit_for_bit(folder, name)
