"""The founding documents, against the figures in their EXPECTED.md."""

import json
import math
import re
import statistics
from pathlib import Path

import pytest

from tasks.publish.page.log_lines import stream_lines
from tasks.publish.terminal.scrape_output import json_text
from tasks.records.log_reading import LogReading, RunReading
from tasks.scrape.read_log import scrape

FILES = {"000": "000_1ada0a1f0c04a8c8.txt", "001": "001_684b1c9e3a214010.txt", "002": "002_2f609e8cddb2312c.txt"}
RUNS = {
    "000 Linen": ("000", 0),
    "000 NNX": ("000", 1),
    "001": ("001", 0),
    "002 main": ("002", 0),
    "002 branch": ("002", 1),
}
LIVING = ["000 Linen", "001", "002 main", "002 branch"]


@pytest.fixture(scope="module")
def readings(seeds: Path) -> dict[str, LogReading]:
    return {name: scrape(seeds / file) for name, file in FILES.items()}


@pytest.fixture
def run(readings: dict[str, LogReading], request: pytest.FixtureRequest) -> RunReading:
    file, index = RUNS[request.param]
    return readings[file].runs[index]


def living(*columns: tuple[object, ...]) -> pytest.MarkDecorator:
    """One case per column of the table `More ground truth`."""
    names = ",".join(["run", *(f"expected{i or ''}" for i in range(len(columns)))])
    rows = list(zip(LIVING, *columns, strict=True))
    return pytest.mark.parametrize(names, rows, indirect=["run"])


@living((0, 4, 7, 0))
def test_process_index(run: RunReading, expected: int) -> None:
    assert run.environment.process_index == expected


@living(("0.9.2", "0.9.2", "0.9.2", "0.8.1"))
def test_environment(run: RunReading, expected: str) -> None:
    environment = run.environment
    assert (environment.jax, environment.jaxlib) == (expected, expected)
    assert environment.device_kind == "TPU v6 lite"
    assert environment.num_devices == 32
    assert environment.mesh == {"fsdp": 32}
    assert environment.backend == "PJRT C API"


@living(
    ((8.179, 91.900, 13852.158), (8.174, 59.366, 8948.311), (6.981, 11.338, 1812.056), (6.981, 11.302, 1806.277)),
    (65536, 65536, 4096, 4096),
)
def test_last_step(run: RunReading, expected: tuple[float, ...], expected1: int) -> None:
    last = run.steps.row(-1, named=True)
    assert (last["loss"], last["tflops_per_device"], last["tokens_per_s_per_device"]) == expected
    assert last["total_weights"] == expected1
    assert run.steps["step"].to_list() == list(range(10))


@living(((2.864, 0.148), (3.394, 0.256), (1.374, 0.076), (1.430, 0.071)))
def test_seconds_without_the_first(run: RunReading, expected: tuple[float, float]) -> None:
    seconds = run.steps["seconds"].to_list()[1:]
    assert (round(statistics.mean(seconds), 3), round(statistics.median(seconds), 3)) == expected


@living(((1.5, 0.4, 1.1, 0.4), (1.8, 0.4, 1.4, 0.4), (0.8, 0.4, 0.4, 0.4), (0.8, 0.4, 0.4, 0.4)))
def test_memory_forecast(run: RunReading, expected: tuple[float, ...]) -> None:
    memory = run.memory
    assert (memory.total_gb, memory.output_gb, memory.temp_gb, memory.argument_gb) == expected
    assert memory.host_temp_gb == 0.0


@living(([0.43] * 4, [0.44, 0.43, 0.43, 0.43], [0.41] * 4, [0.41] * 4), (1.376, 1.408, 1.312, 1.312))
def test_device_memory(run: RunReading, expected: list[float], expected1: float) -> None:
    assert [device.used_gb for device in run.memory.devices] == expected
    assert {device.limit_gb for device in run.memory.devices} == {31.25}
    assert run.memory.devices[0].percent == expected1


def test_device_names(readings: dict[str, LogReading]) -> None:
    assert [device.device for device in readings["001"].runs[0].memory.devices] == [
        "TPU_16",
        "TPU_17",
        "TPU_20",
        "TPU_21",
    ]


@living(
    ((46.700434, 52.237321), (42.762964, 50.038674), (44.258613, 52.340147), (49.056172, 51.781308)),
    (39, 111, 39, 39),
    (True, None, None, True),
    ((1.00, 0.76), (0.59, 1.22), (1.00, 0.75), (2.073279, 1.422629)),
)
def test_checkpoints(
    run: RunReading, expected: tuple[float, float], expected1: int, expected2: bool | None, expected3: tuple[float, ...]
) -> None:
    events = run.checkpoints
    assert [event.step for event in events] == [0, 9]
    assert tuple(event.background_s for event in events) == expected
    assert {event.arrays for event in events} == {expected1}
    assert {event.committed for event in events} == {expected2}
    assert tuple(event.blocking_s for event in events) == expected3
    assert all((event.path or "").endswith(f"/checkpoints/{event.step}") for event in events)


@living(((13.59, 93.93, 6.07), (13.59, 93.93, 6.07), (0.80, 99.60, 0.40), (0.80, 99.60, 0.40)))
def test_flops(run: RunReading, expected: tuple[float, ...]) -> None:
    assert (run.flops.total_tflops, run.flops.weight_pct, run.flops.attention_pct) == expected


@living(("metric_logger.py:196", "metric_logger.py:196", "metric_logger.py:196", "metric_logger.py:185"))
def test_frame_and_coverage(run: RunReading, expected: str) -> None:
    assert run.source_file == expected
    assert (run.exit_code, run.error) == (0, None)
    assert (run.parameters.count, run.parameters.printed) == (1_104_000_000, "1.104 billion")
    coverage = run.coverage
    assert (coverage.step_lines_seen, coverage.step_lines_parsed) == (10, 10)
    assert coverage.complete
    assert (coverage.gaps, coverage.rewinds, coverage.glued_lines) == ((), 0, 0)
    assert (coverage.truncated, coverage.unknown_keys) == (False, ())


@living((155, 117, 131, 155))
def test_records_on_separate_lines(run: RunReading, expected: int, seeds: Path, request: pytest.FixtureRequest) -> None:
    file = FILES[request.node.callspec.params["run"].split()[0]]
    lines = list(stream_lines(seeds / file, run.span))
    record = re.compile(r"[IW]\d{4} \d\d:\d\d:\d\d\.\d{6}")
    assert sum(1 for _, text in lines if record.match(text)) == expected
    assert sum(len(record.findall(text)) for _, text in lines) == expected


@pytest.mark.parametrize("run", ["000 Linen", "002 main", "002 branch"], indirect=True)
def test_parameter_dump(run: RunReading) -> None:
    arrays = {array.path: array for array in run.parameters.arrays}
    assert len(arrays) == 12
    assert arrays["params/params/decoder/layers/mlp/wi_0/kernel"].shape == (2048, 16, 7168)
    assert arrays["params/params/decoder/logits_dense/kernel"].physical == "('fsdp', None)"
    assert {array.dtype for array in arrays.values()} == {"float32"}
    total = sum(math.prod(array.shape) for array in arrays.values())
    assert f"{total / 1e9:.3f} billion" == run.parameters.printed


def test_the_dead_run(readings: dict[str, LogReading], seeds: Path) -> None:
    run = readings["000"].runs[1]
    assert (run.exit_code, run.started, run.ended) == (1, "2026-04-18T02:26:32+00:00", "2026-04-18T02:27:22+00:00")
    assert run.error is not None
    assert run.error.type == "NotImplementedError"
    lines = (seeds / FILES["000"]).read_text().split("\n")
    assert lines[run.error.line - 1].rstrip() == f"NotImplementedError: {run.error.message}"
    assert run.environment.jax == "0.9.2"
    assert run.steps.is_empty()
    assert not run.checkpoints


@pytest.mark.parametrize("run", list(RUNS), indirect=True)
def test_every_value_links_to_its_line(run: RunReading, seeds: Path, request: pytest.FixtureRequest) -> None:
    data = (seeds / FILES[request.node.callspec.params["run"].split()[0]]).read_bytes()
    for row in run.steps.iter_rows(named=True):
        assert data[row["offset"] :].startswith(b"completed step: %d," % row["step"])
        assert data.count(b"\n", 0, row["offset"]) + 1 == row["line"]
    for event in run.checkpoints:
        assert data[event.offset :].startswith(b"Saving checkpoint at step %d" % event.step)
    for device in run.memory.devices:
        assert data[device.offset :].startswith(b"Using (GB) ")
    assert all(run.span[0] <= offset < run.span[1] for offset in run.steps["offset"])


def test_the_long_steps_of_the_pages_are_checkpoints(readings: dict[str, LogReading]) -> None:
    for file, index, steps in (("000", 0, {1, 6}), ("001", 0, {1, 7}), ("002", 0, {1, 3, 7}), ("002", 1, {1, 2, 6})):
        stalls = readings[file].runs[index].stalls
        assert {stall.step for stall in stalls if stall.cause == "checkpoint"} == steps
        assert [stall.step for stall in stalls if stall.cause == "compile"] == [0]


def test_page_with_line_breaks(readings: dict[str, LogReading]) -> None:
    reading = readings["000"]
    assert [(run.name, run.commit, run.branch) for run in reading.runs] == [
        ("Linen", "147168c3a", "main"),
        ("NNX", "1b5e4eb5a", "main"),
    ]
    assert reading.page is not None
    assert reading.page["case"] == "11_optimizer_offload_false"


def test_page_without_line_breaks(readings: dict[str, LogReading]) -> None:
    reading = readings["002"]
    branch = "feat/Migrate-Decoder-And-Tests-to-NNX"
    assert [(run.name, run.commit, run.branch) for run in reading.runs] == [
        ("main", "574ad3fb9", "main"),
        (branch, "574ad3fb9", branch),
    ]
    assert reading.page is not None
    assert reading.page["case"] == "03_dropout"


def test_guide(seeds: Path) -> None:
    reading = scrape(seeds / "003_5733aeb335921957.txt")
    run, excerpt = reading.runs
    assert run.steps["step"].to_list() == list(range(10))
    assert run.steps["loss"].to_list()[-1] == 10.374
    assert run.environment.jax == "0.7.2.dev20250826"
    assert (run.environment.num_devices, run.environment.mesh) == (4, {"fsdp": 4})
    assert run.environment.device_kind == "TPU v5"
    assert (run.memory.total_gb, run.memory.temp_gb) == (100.4, 55.9)
    assert run.memory.devices[0].percent == 46.615835
    assert run.parameters.printed == "15.933 billion"
    assert (run.flops.total_tflops, run.flops.weight_pct) == (764.67, 94.54)
    assert run.config["per_device_batch_size"] == "24.0"
    assert run.config["checkpoint_dir"] == "gs://runner-maxtext-logs/demo/checkpoints/"
    assert not run.coverage.complete  # it has no end
    # the last excerpt is from another run: real data, with padding
    assert excerpt.steps["total_weights"].to_list() == [163259, 155934]


def test_json_is_strict(readings: dict[str, LogReading]) -> None:
    for reading in readings.values():
        again = json.loads("".join(json_text(reading)), parse_constant=pytest.fail)
        assert [run["name"] for run in again["runs"]] == [run.name for run in reading.runs]
