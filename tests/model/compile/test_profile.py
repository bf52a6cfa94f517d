"""Profiles of accelerators, with the names of planes, lines, events and stats from XLA's profiler.

The TPU's names are from `tpu_inference_2.xplane.pb` of openxla/xprof; the GPU's stats are from XLA's CUPTI collector.
"""

from pathlib import Path
from typing import Any

import pytest
from jax.profiler import ProfileData

from model.compile.profile import read_profile

pytestmark = [
    pytest.mark.flows,
    pytest.mark.filterwarnings("ignore:builtin type"),
]  # in C++, where an error would end the process

type Event = tuple[str, float, float, dict[str, str]]  # name, begin and duration in microseconds, stats


def write_profile(path: Path, planes: dict[str, dict[str, list[Event]]]) -> str:
    text = []
    for plane, lines in planes.items():
        events = [event for line in lines.values() for event in line]
        names = {name: n for n, name in enumerate(dict.fromkeys(name for name, *_ in events), 1)}
        stats = {name: n for n, name in enumerate(dict.fromkeys(key for *_, own in events for key in own), 1)}
        text.append(f'planes {{ name: "{plane}"')
        text += [f'event_metadata {{ key: {n} value {{ id: {n} name: "{name}" }} }}' for name, n in names.items()]
        text += [f'stat_metadata {{ key: {n} value {{ id: {n} name: "{name}" }} }}' for name, n in stats.items()]
        for line, its_events in lines.items():
            text.append(f'lines {{ name: "{line}"')
            for name, begin, duration, own in its_events:
                values = " ".join(f'stats {{ metadata_id: {stats[key]} str_value: "{own[key]}" }}' for key in own)
                times = f"offset_ps: {int(begin * 1e6)} duration_ps: {int(duration * 1e6)}"
                text.append(f"events {{ metadata_id: {names[name]} {times} {values} }}")
            text.append("}")
        text.append("}")
    path.write_bytes(ProfileData.text_proto_to_serialized_xspace("\n".join(text)))
    return str(path)


def test_a_tpus_instructions_belong_to_the_running_module(tmp_path: Path) -> None:
    product, copy = "%fusion.1 = f32[8,8]{1,0} fusion(f32[8,8]{1,0} %p)", "%copy.2 = f32[8]{0} copy(f32[8]{0} %q)"
    device = {
        "Steps": [("7", 0.0, 10.0, {})],
        "XLA Modules": [
            ("jit_train_step(12190760917235803885)", 0.0, 10.0, {}),
            ("jit__psum(9646411105960254074)", 12.0, 2.0, {}),
            ("jit_train_step(12190760917235803885)", 20.0, 9.0, {}),
        ],
        "XLA Ops": [
            (product, 1.0, 4.0, {}), (copy, 6.0, 1.0, {}), (copy, 12.5, 1.0, {}),
            (product, 21.0, 3.0, {}), (copy, 25.0, 2.0, {}),
        ],
        "Async XLA Ops": [("%copy-start.1 = (f32[8]{0}) copy-start(f32[8]{0} %q)", 1.0, 8.0, {})],
    }  # fmt: skip
    path = write_profile(tmp_path / "tpu.xplane.pb", {"/device:TPU:0": device, "/device:TPU:1": device})
    found = read_profile(path)
    assert found["devices"] == 2
    step = found["modules"]["jit_train_step"]
    assert step["runs"] == [[1_000, 7_000], [21_000, 27_000]]
    # both devices together, each execution as in the quicker of both runs
    assert step["instructions"] == {"fusion.1": [6_000, 8_000, 6_000], "copy.2": [2_000, 2_000, 4_000]}
    assert found["modules"]["jit__psum"]["instructions"]["copy.2"][0] == 2_000


def test_a_gpus_kernels_have_no_run_number(tmp_path: Path) -> None:
    def kernel(name: str, begin: float, duration: float) -> Event:
        return f"{name}_kernel", begin, duration, {"hlo_op": name, "hlo_module": "jit_train_step", "program_id": "3"}

    stream = [
        kernel("fusion.1", 0.0, 4.0), kernel("gemm.2", 5.0, 3.0), kernel("gemm.2", 9.0, 2.0),
        kernel("fusion.1", 20.0, 2.0), kernel("gemm.2", 23.0, 1.0), kernel("gemm.2", 25.0, 5.0),
    ]  # fmt: skip
    path = write_profile(tmp_path / "gpu.xplane.pb", {"/device:GPU:0": {"Stream #13(Compute)": stream}})
    step = read_profile(path)["modules"]["jit_train_step"]
    assert step["runs"] == [[0, 11_000], [20_000, 30_000]]
    assert step["instructions"] == {"fusion.1": [2_000, 4_000, 2_000], "gemm.2": [3_000, 5_000, 6_000]}


@pytest.mark.parametrize("last", [[], [("sort.3", 40.0, 1.0)]])
def test_a_run_truncated_by_the_profile_does_not_count(last: list[Any], tmp_path: Path) -> None:
    runs = [("sort.3", 0.0, 5.0), ("sort.3", 6.0, 5.0), ("sort.3", 20.0, 7.0), ("sort.3", 28.0, 7.0), *last]
    numbers = [0, 0, 1, 1, 2]
    events = [
        (name, begin, spent, {"hlo_op": name, "hlo_module": "jit_step", "run_id": str(run), "device_ordinal": "0"})
        for (name, begin, spent), run in zip(runs, numbers, strict=False)
    ]
    path = write_profile(tmp_path / "cpu.xplane.pb", {"/host:CPU": {"tf_XLAEigen/1": events}})
    assert read_profile(path)["modules"]["jit_step"]["instructions"]["sort.3"] == [10_000, 10_000, 14_000]
