"""Obstacles to runs on a target."""

from pathlib import Path
from typing import Any

import pytest

from configs.comparison import Target, load_target
from tasks.launch.job import find_obstacles
from tests.wording.sentences import Wording

PLACE = {
    "MAXVIEW_CLUSTER": "c", "MAXVIEW_PROJECT": "p", "MAXVIEW_ZONE": "us-east5-b", "MAXVIEW_IMAGE": "gcr.io/p/i:1",
}  # fmt: skip


def test_this_machine_has_no_obstacles() -> None:
    assert list(find_obstacles(load_target("cpu"), {})) == []


def test_unset_variables_are_reported(wording: Wording) -> None:
    (found,) = find_obstacles(load_target("v6e-32"), {})
    assert f"v6e-32.yml: not set: {', '.join(f'${name}' for name in PLACE)}; " in found
    wording("errors", found)


def test_missing_tools_and_clusters_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, xpk_target: Target
) -> None:
    pytest.importorskip("kubernetes", reason="runs on clusters need it: uv sync --extra k8s")
    config: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
    (tmp_path / "kubeconfig").write_text(str(config).replace("'", '"'))
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "kubeconfig"))
    monkeypatch.setenv("PATH", str(tmp_path))
    found = list(find_obstacles(xpk_target, PLACE))
    assert [line.partition(" ")[0] for line in found[:3]] == ["xpk", "kubectl", "gcloud"]
    assert "gcloud container clusters get-credentials c --location us-east5 --project p" in found[3]
    optional, *others = find_obstacles(load_target("v6e-32"), PLACE)
    assert optional.startswith("gcloud is not installed; without it ")
    assert others == found[3:]  # needs none of the tools


def test_devices_are_those_of_all_slices(wording: Wording) -> None:
    one = load_target("v6e-32")
    wrong = one.replace(launch=one.launch | {"num_slices": 2})
    (found,) = find_obstacles(wrong, PLACE)
    assert "configs/targets/v6e-32.yml: " in found
    assert found.endswith("64 devices, not 32")
    wording("errors", found)
    two = {"launch": one.launch | {"num_slices": 2, "topology": "v6e:4x8"}, "topology": None, "devices": 64}
    assert one.replace(**two).launch_settings(PLACE).devices == 64
