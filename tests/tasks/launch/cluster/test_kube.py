"""The context of a target in a kubeconfig: never just the current one; without one, a message with the command."""

from pathlib import Path

import pytest

from configs.backends.xpk import Xpk
from tasks.launch.backend import LaunchError
from tests.wording.sentences import Wording

kube = pytest.importorskip("tasks.launch.cluster.kube", reason="runs on clusters need kubernetes: uv sync --extra k8s")

pytestmark = pytest.mark.flows
WANTED = "gke_p_us-east5_tpus"
GET = "gcloud container clusters get-credentials tpus --location us-east5 --project p"


@pytest.fixture
def settings() -> Xpk:
    return Xpk(cluster="tpus", project="p", zone="us-east5-b", tpu_type="v6e-32", image="gcr.io/p/t:1")


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the kubeconfig for the library; the file is missing."""
    path = tmp_path / "kubeconfig"
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    return path


def holding(*contexts: str, current: str | None = None) -> str:
    text = "apiVersion: v1\nkind: Config\n" + (f"current-context: {current}\n" if current else "")
    text += "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\nusers: []\ncontexts:\n"
    return text + "".join(f"  - {{name: {name}, context: {{cluster: c}}}}\n" for name in contexts)


def test_without_a_current_context_the_clusters_own_is_found(settings: Xpk, kubeconfig: Path) -> None:
    kubeconfig.write_text(holding("minikube", WANTED))
    assert kube.choose_context(settings) == WANTED
    kube.connect.__wrapped__(WANTED, "default").close()


@pytest.mark.parametrize("current", [None, "minikube"])
def test_contexts_of_other_clusters_are_named_and_not_used(
    settings: Xpk,
    kubeconfig: Path,
    current: str | None,
    wording: Wording,
) -> None:
    kubeconfig.write_text(holding("minikube", "gke_p_us-east5_other", current=current))
    with pytest.raises(LaunchError) as caught:
        kube.choose_context(settings)
    reported = str(caught.value)
    assert "minikube, gke_p_us-east5_other" in reported
    assert GET in reported
    wording("errors", reported)


def test_a_missing_kubeconfig(settings: Xpk, kubeconfig: Path) -> None:
    missing = rf"has no context for cluster tpus; run `{GET}`, or set `context` of the target$"
    with pytest.raises(LaunchError, match=missing):
        kube.choose_context(settings)


@pytest.mark.parametrize("text", ["", "- a list", "contexts: [", "contexts: [{context: {}}]", "contexts: [1]"])
def test_a_damaged_kubeconfig_is_named(settings: Xpk, kubeconfig: Path, text: str) -> None:
    kubeconfig.write_text(text)
    with pytest.raises(LaunchError, match=r"/kubeconfig cannot be read: .*; mend it"):
        kube.choose_context(settings)
