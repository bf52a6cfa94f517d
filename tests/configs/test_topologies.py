"""TPU slices by name, and the targets that name a slice."""

from collections.abc import Callable
from pathlib import Path

import pytest

from configs.comparison import load_target
from configs.errors import ConfigError
from configs.names import list_names
from configs.topologies import GENERATIONS, find_topology

TARGET = "# There.\nbackend: local\ndevices: 32\ntopology: v6e:4x8\nmodel: tiny\ntime_limit_s: 60\n"
GIB = 2**30


def test_a_slice_has_the_devices_of_its_chips() -> None:
    assert find_topology("v6e:4x8").devices == 32
    assert find_topology("v5p:2x4x4").devices == 32
    assert find_topology("v7x:2x2x4").devices == 32  # 16 chips with two devices each
    # Google Cloud: 16, 95, 32 and 192 GB of a chip; the runtime keeps less than two of each
    for name, chip in (("v5e:4x8", 16), ("v5p:2x4x4", 96), ("v6e:4x8", 32), ("v7x:2x2x4", 96)):
        assert 0 < chip - find_topology(name).hbm_bytes / GIB < 2


@pytest.mark.parametrize(("name", "shown"), [("v6e:4x9", {"v6e"}), ("v6e-32", set(GENERATIONS))])
def test_an_unknown_slice_is_refused_with_the_known_slices(name: str, shown: set[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        find_topology(name)
    (problem,) = caught.value.problems
    assert problem.startswith(f"unknown topology '{name}'; there are: ")
    known = {kind for kind, made in GENERATIONS.items() if f"{kind}: {', '.join(made.shapes)}" in problem}
    assert known == shown


def test_every_generation_has_a_target() -> None:
    named = {load_target(name).topology for name in list_names("targets")} - {None}
    assert {str(name).partition(":")[0] for name in named} == set(GENERATIONS)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("v6e:4x8", "v6e-32", "unknown topology 'v6e-32'"),
        ("devices: 32", "devices: 16", "topology v6e:4x8 has 32 devices, not 16"),
        ("model: tiny", "model: tiny\nmemory_gib: 32", "leave memory_gib out"),
    ],
)
def test_a_target_and_its_slice_agree(
    old: str, new: str, expected: str, tree: Path, write: Callable[[str, str], Path]
) -> None:
    path = write("targets/there.yml", TARGET.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        load_target("there", root=tree)
    (problem,) = caught.value.problems
    assert expected in problem
    assert f"{path}:{TARGET[: TARGET.index('topology')].count(chr(10)) + 1}" in problem


def test_a_slice_has_the_memory_of_its_devices(tree: Path, write: Callable[[str, str], Path]) -> None:
    write("targets/there.yml", TARGET)
    assert load_target("there", root=tree).device_memory_gib == pytest.approx(31.24, abs=0.01)
