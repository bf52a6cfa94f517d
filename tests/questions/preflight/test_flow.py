"""`maxview preflight`, and the preflight of `maxview compare` before a launch, with a stand-in for the compiler."""

import json
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

type Maxview = Callable[..., subprocess.CompletedProcess[str]]

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "tests" / "samples" / "preflight"
STANDINS = ROOT / "tests" / "standins" / "kubernetes"
WORKER = "the-workers-token"  # of the account that the stand-in knows
PLACE = {  # of a cluster that receives no job
    "MAXVIEW_CLUSTER": "c", "MAXVIEW_PROJECT": "p", "MAXVIEW_ZONE": "us-east5-b", "MAXVIEW_IMAGE": "gcr.io/p/t:1",
    "MAXVIEW_SHARED_OUT": "true",
}  # fmt: skip

pytestmark = pytest.mark.long  # whole command lines


@pytest.fixture
def compiler(tmp_path: Path) -> Path:
    """A Python with a stand-in TPU compiler that writes samples; `samples/ARM` selects the sample."""
    place = tmp_path / "python"
    venv.create(place, with_pip=False, symlinks=True)
    (packages,) = place.glob("lib/python*/site-packages")
    own = (str(ROOT / "probe"), str(ROOT / "tests" / "standins" / "compiler"))
    lines = (sysconfig.get_path("purelib"), *own, "import leave_sample")
    (packages / "compiler.pth").write_text("\n".join(lines) + "\n")
    known = packages / "libtpu-0.0.50.dist-info"
    known.mkdir()
    (known / "METADATA").write_text("Metadata-Version: 2.1\nName: libtpu\nVersion: 0.0.50\n")
    return place


def leave(compiler: Path, **samples: str) -> None:
    for arm, sample in samples.items():
        shutil.copytree(SAMPLES / sample, compiler / "samples" / arm)


def refuse(compiler: Path, arm: str) -> None:
    """The output of a compile that runs out of memory."""
    folder = compiler / "samples" / arm
    (folder / "optimised.hlo.gz").unlink()
    record = json.loads((folder / "compile.json").read_text())
    message = "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 35.2G of 31.25G hbm."
    record |= {"ok": False, "error": {"type": "HbmOverflow", "message": message}, "memory": None}
    (folder / "compile.json").write_text(json.dumps(record))


def test_a_lost_donation_is_first_and_leads_to_its_line(maxview: Maxview, compiler: Path, tmp_path: Path) -> None:
    leave(compiler, linen="none", nnx="no-donation")
    words = ("preflight", "linen-vs-nnx", "--out", "o", "--json")
    done = maxview(*words, python=compiler / "bin" / "python")
    assert done.returncode == 1, done.stderr
    (record,) = json.loads(done.stdout)
    assert record["verdict"] == "regressed"
    assert "Memory of a device" in record["headline"]
    assert record["programs"]["differences"][0]["what"] == "donation"
    page = next((tmp_path / "o" / "comparisons").rglob("index.html"))
    text = page.read_text()
    assert 'href="#candidate-optimised-L1"' in text
    assert (page.parent / "logs" / "candidate-optimised.txt").read_text().startswith("HloModule")
    again = maxview(*words, python=compiler / "bin" / "python")
    assert again.returncode == 1
    assert again.stderr.count("compiled before") == 2


@pytest.fixture
def clusters_user(tmp_path: Path, user_environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """The environment of a user whose cluster answers."""
    folder, port, name = tmp_path / "cluster", tmp_path / "port", "gke_p_us-east5_c"
    folder.mkdir()
    argv = [sys.executable, str(STANDINS / "server.py"), str(port), str(folder), "--python", str(folder)]
    server = subprocess.Popen(argv, cwd=ROOT)
    try:
        deadline = time.monotonic() + 120
        while not port.is_file() and time.monotonic() < deadline:
            time.sleep(0.05)
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": f"http://127.0.0.1:{port.read_text()}"}}],
            "users": [{"name": name, "user": {"token": WORKER}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        }  # fmt: skip
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        yield user_environment | PLACE | {"KUBECONFIG": str(tmp_path / "kubeconfig")}
    finally:
        server.terminate()
        server.wait(60)


def test_a_program_that_does_not_fit_is_not_launched(
    maxview: Maxview, compiler: Path, tmp_path: Path, clusters_user: dict[str, str]
) -> None:
    leave(compiler, linen="none", nnx="none")
    refuse(compiler, "nnx")
    done = maxview(
        "compare", "linen-vs-nnx", "--target", "v6e-32", "--out", "o", "--json",
        python=compiler / "bin" / "python", environment=clusters_user,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    (record,) = json.loads(done.stdout)
    assert record["verdict"] == "regressed"
    assert record["headline"].startswith("nothing was launched: nnx")
    assert "HbmOverflow: RESOURCE_EXHAUSTED" in record["headline"]
    assert record["candidate"]["cause_of_death"]["kind"] == "device_oom"
    runs = {path.name.rpartition("-r")[0] for path in (tmp_path / "o" / "runs").iterdir()}
    assert runs == {"01_base-linen-compile", "01_base-nnx-compile"}


def test_a_target_without_a_slice_is_refused(maxview: Maxview) -> None:
    done = maxview("preflight", "linen-vs-nnx", "--target", "cpu")
    assert done.returncode == 2
    assert "cpu names no topology" in done.stderr
