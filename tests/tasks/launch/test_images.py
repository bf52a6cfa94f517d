"""An image per arm, from a comparison's file to the JobSet."""

import shutil
from pathlib import Path

import pytest

from configs.backends.jobset import JobSet
from configs.errors import ConfigError
from configs.read import CONFIG_ROOT
from tasks.launch.jobset.manifest import make_manifest
from tasks.resolve.plans import Request, resolve
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

COMPARISON = """\
# Do two builds of the trainer's image differ?
trainer: maxview
target: v6e-32
repeats: 1
tolerances: default
cases: [01_base]
arms:
  - {name: old, image: "gcr.io/p/trainer:1"}
  - {name: new, image: "gcr.io/p/trainer@sha256:%s"}
""" % ("0" * 64)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "configs"
    shutil.copytree(CONFIG_ROOT, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    (folder / "comparisons" / "images.yml").write_text(COMPARISON)
    variables = {"CLUSTER": "c", "PROJECT": "p", "ZONE": "us-east5-b", "IMAGE": "gcr.io/p/default:1"}
    for name, value in variables.items():
        monkeypatch.setenv(f"MAXVIEW_{name}", value)
    return folder


def test_each_arm_runs_its_own_image(root: Path, tmp_path: Path) -> None:
    plans = resolve(Request(comparison="images"), tmp_path / "out", root=root)
    assert [plan.arm for plan in plans] == ["old", "new"]
    images = []
    for plan in plans:
        assert isinstance(plan.launch, JobSet)
        (job,) = make_manifest(plan, plan.launch, "name", ())["spec"]["replicatedJobs"]
        (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
        images.append(container["image"])
    assert images == ["gcr.io/p/trainer:1", f"gcr.io/p/trainer@sha256:{'0' * 64}"]
    assert len({plan.identity for plan in plans}) == 2  # so that no arm reuses the other's runs
    assert [plan.software for plan in plans] == [(f"image {image}",) for image in images]


def test_a_target_without_images_refuses_them(root: Path, tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(ConfigError, match=r"'old'.*jobset or slurm or xpk") as error:
        resolve(Request(comparison="images", target="cpu"), tmp_path / "out", root=root)
    wording("errors", error.value, FOLDER=root)
