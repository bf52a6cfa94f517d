"""Two processes that train one model, like the hosts of a slice."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from configs.load import ConfigError
from configs.schema import TrainConfig
from model.train.distributed import join_processes
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

ROOT = Path(__file__).parents[3]
TIMEOUT_S = 600
CLOCKED = {"step_time_s", "step_cpu_time_s", "step_wait_s", "device_s", "input_s", "save_s", "report_s"}
type MiniArguments = Callable[..., list[str]]


def start(words: list[str], *, port: int, processes: int, devices: int) -> list["subprocess.Popen[str]"]:
    """The processes of one run, with some CPU devices each."""
    flags = f"--xla_force_host_platform_device_count={devices} --xla_backend_optimization_level=0"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    address = f"127.0.0.1:{port}"
    joined = {"JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": str(processes)} if processes > 1 else {}
    return [
        subprocess.Popen(
            [sys.executable, "-m", "model.train", *words],
            cwd=ROOT,
            env=environment | joined | {"JAX_PROCESS_ID": str(index)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for index in range(processes)
    ]


def finish(processes: list["subprocess.Popen[str]"]) -> list[tuple[int, str]]:
    outputs = [process.communicate(timeout=TIMEOUT_S)[0] for process in processes]
    return [(process.returncode, output) for process, output in zip(processes, outputs, strict=True)]


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    lines = (folder / name / "metrics.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if key not in CLOCKED} for line in lines]


@pytest.mark.long
@pytest.mark.by_hand
def test_two_processes_train_the_same_as_one_with_as_many_devices(
    tmp_path: Path, mini_arguments: MiniArguments, free_port: Callable[[], int]
) -> None:
    for name, processes, devices in (("one", 1, 2), ("two", 2, 1)):
        words = mini_arguments(run_name=name, base_output_directory=tmp_path)
        for code, output in finish(start(words, port=free_port(), processes=processes, devices=devices)):
            assert code == 0, output[-3000:]
    assert len(rows(tmp_path, "one")) == 6
    assert rows(tmp_path, "one") == rows(tmp_path, "two")  # to the last bit, and each step logged once
    one, two = (json.loads((tmp_path / name / "program.json").read_text()) for name in ("one", "two"))
    assert one["state"] == two["state"]
    assert two["num_devices"] == 2
    saved = tmp_path / "two" / "checkpoints" / "5" / "items"
    assert sorted(path.name for path in saved.glob("ocdbt.process_*")) == ["ocdbt.process_0", "ocdbt.process_1"]


@pytest.mark.long
@pytest.mark.by_hand
def test_both_stop_at_the_same_step_after_one_sigterm(
    tmp_path: Path, mini_arguments: MiniArguments, free_port: Callable[[], int]
) -> None:
    words = mini_arguments(
        run_name="stopped", base_output_directory=tmp_path, steps=100_000, checkpoint_period=1_000_000
    )
    processes = start(words, port=free_port(), processes=2, devices=1)
    metrics = tmp_path / "stopped" / "metrics.jsonl"
    deadline = time.monotonic() + TIMEOUT_S
    while not (metrics.exists() and metrics.read_text().count("\n") > 3):
        assert time.monotonic() < deadline
        assert processes[0].poll() is None, processes[0].communicate()[0][-3000:]
        time.sleep(0.1)
    processes[1].send_signal(signal.SIGTERM)
    for code, output in finish(processes):
        assert code == 128 + signal.SIGTERM, output[-3000:]
    last = rows(tmp_path, "stopped")[-1]["step"]
    saved = [int(path.name) for path in (tmp_path / "stopped" / "checkpoints").iterdir()]
    assert sorted(saved) == [0, last]


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, "JAX_NUM_PROCESSES and JAX_PROCESS_ID"),
        ({"JAX_NUM_PROCESSES": "2"}, "JAX_PROCESS_ID"),
        ({"JAX_NUM_PROCESSES": "two", "JAX_PROCESS_ID": "0"}, "JAX_NUM_PROCESSES"),
    ],
)
def test_an_incomplete_environment_is_refused(
    environ: dict[str, str], wanted: str, mini_config: Callable[..., TrainConfig], wording: Wording
) -> None:
    with pytest.raises(ConfigError, match=f" {wanted} must ") as error:
        join_processes(mini_config(), {"JAX_COORDINATOR_ADDRESS": "127.0.0.1:1"} | environ)
    wording("errors", error.value)


def test_a_single_process_joins_no_cluster(mini_config: Callable[..., TrainConfig]) -> None:
    join_processes(mini_config(), {"TPU_WORKER_HOSTNAMES": "localhost"})
