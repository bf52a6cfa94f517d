"""Facts that a log contains once, in the formats of several years."""

from typing import Any

import pytest

from tasks.records.log_reading import RunReading
from tasks.scrape.read_log import scrape_text


@pytest.fixture
def read(logs: Any) -> Any:
    def run(*texts: str, code: int = 0) -> RunReading:
        return scrape_text(logs.framed(*(logs.line(text) for text in texts), code=code), name="x").runs[0]

    return run


def test_memory_in_the_new_format(read: Any) -> None:
    memory = read(
        "Total estimated memory size: 100.4 GB, estimated output size: 44.5 GB, estimated temp size: 55.9 GB, "
        "estimated argument size: 44.25 GB, Estimated host temp size: 0.5 GB."
    ).memory
    assert (memory.total_gb, memory.output_gb, memory.temp_gb, memory.argument_gb) == (100.4, 44.5, 55.9, 44.25)
    assert memory.host_temp_gb == 0.5
    assert memory.source.line == 2


def test_memory_that_is_not_reported(read: Any) -> None:
    memory = read("\tMemstats unavailable, error: 'NoneType' object is not subscriptable", "next").memory
    assert memory.unavailable == "'NoneType' object is not subscriptable"
    assert memory.devices == ()


def test_host_memory_is_not_a_device(read: Any) -> None:
    assert read("\tUsing (GB) 3.1 / 12.0 (25.833333%) -->  Available:8.9").memory.devices == ()


@pytest.mark.parametrize(
    ("texts", "mesh"),
    [
        (["Num_devices: 32, shape (1, 1, 1, 32)\nfsdp: 32"], {"fsdp": 32}),
        (["Num_devices: 8, shape (1, 2, 4)\ndata: 2\nfsdp: 4"], {"data": 2, "fsdp": 4}),
        (["Num_devices: 8, shape OrderedDict({'diloco': 1, 'data': 2, 'fsdp': 4})"], {"data": 2, "fsdp": 4}),
        (["Config param mesh_axes: ['data', 'x', 'y']", "Num_devices: 8, shape (2, 1, 4)"], {"data": 2, "y": 4}),
        (["Num_devices: 1, shape (1, 1, 1)"], {}),
        (["Num_devices: 8, shape (2, 1, 4)"], None),  # the axes have no names
        (["Num_devices: 8, shape (2, 1, 4)", "Config param mesh_axes: ['data']\nfsdp: 3"], None),
    ],
)  # fmt: skip
def test_mesh(read: Any, texts: list[str], mesh: dict[str, int] | None) -> None:
    assert read(*texts).environment.mesh == mesh


@pytest.mark.parametrize(
    ("text", "backend", "kind"),
    [
        ("PJRT C API\nTFRT TPU v6 lite\nBuilt on Mar 4 2026 11:32:08 (1) cl/8", "PJRT C API", "TPU v6 lite"),
        ("PJRT C API\nTFRT TPU v5\n", "PJRT C API", "TPU v5"),
        ("PJRT C API\ncuda 12090", "PJRT C API", None),
        ("cuda\nSystem Information: Device Kind: NVIDIA H100 80GB HBM3", "cuda", "NVIDIA H100 80GB HBM3"),
        ("cpu", "cpu", None),
    ],
)
def test_backend(read: Any, text: str, backend: str, kind: str | None) -> None:
    environment = read(f"System Information: Jax Backend: {text}", "next").environment
    assert (environment.backend, environment.device_kind) == (backend, kind)


def test_config_values_as_printed(read: Any) -> None:
    config = read(
        "Config param run_name: my run",
        "Config param empty: ",
        "Config param axes: (('data', 'fsdp'),)",
        "Config param z: -1",
    ).config
    assert config == {"run_name": "my run", "empty": "", "axes": "(('data', 'fsdp'),)", "z": "-1"}


def test_parameter_dump_without_logical_names(read: Any) -> None:
    array = read(
        " params/a/b\n    Shape:     bfloat16[8,4]\n    Physical:  (('data', 'fsdp'), None)"
    ).parameters.arrays[0]
    assert (array.path, array.dtype, array.shape, array.logical) == ("params/a/b", "bfloat16", (8, 4), None)
    assert array.physical == "(('data', 'fsdp'), None)"


def test_times_take_the_year_of_the_frame(logs: Any) -> None:
    new_year = logs.framed(logs.step(0)).replace(b"Sat Apr 18 00:00:00 UTC 2026", b"Thu Dec 31 23:59:00 UTC 2026")
    new_year = new_year.replace(b"I0418", b"I0101")
    run = scrape_text(new_year, name="x").runs[0]
    assert run.started == "2026-12-31T23:59:00+00:00"
    assert run.steps["time"].to_list() == ["2027-01-01T00:00:00.000000"]


def test_times_without_a_year(logs: Any) -> None:
    run = scrape_text((logs.step(0) + "\n").encode(), name="x").runs[0]
    assert run.started is None
    assert run.steps["time"].to_list() == [None]
    dated = b"2026-04-18 00:00:01.5: E external/local_xla] failed call to cuInit\n" + (logs.step(0) + "\n").encode()
    run = scrape_text(dated, name="x").runs[0]
    assert run.started == "2026-04-18T00:00:01"
    assert run.steps["time"].to_list() == ["2026-04-18T00:00:00.000000"]


def test_evaluations_old_and_new(read: Any) -> None:
    run = read(
        "Completed eval step: 0, seconds: 0.500, running loss=7.250, running total_weights=4096",
        "Completed eval step: 1, seconds: 0.250, running loss=7.125, running total_weights=8192",
        "Completed eval after train step 5, loss=7.125, perplexity=1242.648, total_weights=8192, rate=12.50%",
        "eval metrics after step: 9, loss=nan, total_weights=8192.0",
    )
    new, old = run.evals
    assert (new["step"], new["loss"], new["rate"]) == (5, 7.125, 12.5)
    assert (new["eval_steps"], new["eval_seconds"], new["line"]) == (2, 0.75, 4)
    assert (old["step"], old["total_weights"], old["eval_steps"]) == (9, 8192.0, None)
    assert old["loss"] != old["loss"]
    assert run.steps.is_empty()


@pytest.mark.parametrize(
    ("printed", "count"), [("0.000 billion", None), ("0.001 billion", 10**6), ("1.104 billion", 1_104_000_000)]
)
def test_a_count_rounded_to_zero_is_missing(logs: Any, printed: str, count: int | None) -> None:
    (run,) = scrape_text(logs.framed(f"number parameters: {printed}", logs.step(0)), name="x").runs
    assert (run.parameters.count, run.parameters.printed) == (count, printed)


def test_lines_that_lost_their_fields_are_counted_and_not_read(logs: Any) -> None:
    lost = "completed step: 99, " * 5000
    (run,) = scrape_text(logs.framed(logs.step(0), lost + logs.step(1), logs.step(2)), name="x").runs
    assert run.steps["step"].to_list() == [0, 1, 2]
    assert run.coverage.step_lines_seen == 5003
    assert not run.coverage.complete


@pytest.mark.parametrize(("line", "used"), [
    ("Using (GB) 17.0 / 65.28 (26.041667%)", [17.0]),
    ("Using (GB) 217.0 / 65.28 (26.041667%)", []),  # a digit more
    ("Using (GB) 17.0 / 6.28 (26.041667%)", []),
])  # fmt: skip
def test_inconsistent_memory_percentages_are_damage(logs: Any, line: str, used: list[float]) -> None:
    log = logs.framed(f"\t{line} on TPU_0(process=0,(0,0,0,0))", logs.step(0))
    (run,) = scrape_text(log, name="x").runs
    assert [device.used_gb for device in run.memory.devices] == used
