"""Both wheels, installed in environments of their own, used from a folder that is no clone."""

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "tests" / "samples" / "maxview"
TEST = """\
import jax.numpy as jnp


def test_the_norm(same_function):
    same_function(lambda x: x / jnp.sqrt((x * x).mean()), lambda x: x * (x * x).mean() ** -0.5, jnp.arange(1.0, 9.0))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of a user's shell, with a home of its own and the caches of uv and its registries."""
    home = tmp_path_factory.mktemp("home")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("MAXVIEW", "PREFECT", "PYTHON"))}
    cache = subprocess.run(["uv", "cache", "dir"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    return kept | {"HOME": str(home), "UV_CACHE_DIR": cache, "JAX_PLATFORMS": "cpu", "COLUMNS": "100"}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    if shutil.which("uv") is None:
        pytest.skip("uv is not installed")
    folder = tmp_path_factory.mktemp("wheels")
    subprocess.run(["uv", "build", "--quiet", "--wheel", "--all-packages", "-o", str(folder)], cwd=ROOT, check=True)
    return {path.name.partition("-")[0]: path for path in folder.glob("*.whl")}


def install(place: Path, *words: str) -> Path:
    """Make an environment with the packages; return its folder of programs."""
    subprocess.run(["uv", "venv", "--quiet", "--python", "3.12", str(place)], cwd=ROOT, check=True)
    python = str(place / "bin" / "python")
    subprocess.run(["uv", "pip", "install", "--quiet", "--python", python, *words], cwd=ROOT, check=True)
    return place / "bin"


@pytest.fixture(scope="module")
def programs(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("app") / "venv", *map(str, wheels.values()))


@pytest.fixture
def services(programs: Path, environment: dict[str, str], tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a client of the services that `maxview up` starts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [str(programs / "maxview"), "up", "--port", str(port), "--out", str(tmp_path / "out")]
    subprocess.run([*words, "--state", str(tmp_path / "state")], cwd=tmp_path, env=environment, check=True)
    yield environment | {"PREFECT_API_URL": f"http://127.0.0.1:{port}/api", "PREFECT_HOME": str(tmp_path / "client")}
    down = [str(programs / "maxview"), "down", "--state", str(tmp_path / "state")]
    subprocess.run(down, cwd=tmp_path, env=environment, check=True)


def test_commands_work_from_any_folder(programs: Path, environment: dict[str, str], tmp_path: Path) -> None:
    def maxview(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [programs / "maxview", *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    logs = [str(LOGS / f"13_eval-{arm}.txt") for arm in ("linen", "nnx")]
    done = maxview("ingest", "--json", *logs)
    assert done.returncode in (0, 3), done.stderr
    (record,) = json.loads(done.stdout)
    assert Path(tmp_path, "maxview-out/comparisons/ingest/logs", record["id"], "index.html").is_file()
    # by another program: the losses of both logs are equal line by line
    losses = [
        [line.split(", loss: ")[1].split(",")[0] for line in Path(log).read_text().splitlines() if ", loss: " in line]
        for log in logs
    ]
    (row,) = (row for row in record["rows"] if row["metric"] == "loss_per_step")
    assert (row["verdict"] == "same") == (losses[0] == losses[1])
    done = maxview("compare", "linen-vs-nnx", "--only", "function", "--json")
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)
    assert record["verdict"] == "same"  # one program
    done = maxview("compare", "main-vs-branch")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "--repository" in done.stderr


def test_up_serves_the_deployments(programs: Path, services: dict[str, str], tmp_path: Path) -> None:
    given = {side: [str(LOGS / f"13_eval-{arm}.txt")] for side, arm in (("baseline", "linen"), ("candidate", "nnx"))}
    words = [f"{side}={json.dumps(logs)}" for side, logs in given.items()]
    done = subprocess.run(
        [programs / "prefect", "deployment", "run", "ingest/logs", "--watch", "-p", words[0], "-p", words[1]],
        cwd=tmp_path, env=services, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert list(tmp_path.glob("out/comparisons/ingest/*/*/index.html")), done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_the_library_alone_adds_one_package_and_tests_a_function(
    wheels: dict[str, Path], environment: dict[str, str], tmp_path: Path
) -> None:
    programs = install(tmp_path / "venv", "jax", "pytest")
    listed = ["uv", "pip", "freeze", "--python", str(programs / "python")]
    before = set(subprocess.run(listed, check=True, capture_output=True, text=True).stdout.splitlines())
    words = ["uv", "pip", "install", "--quiet", "--python", str(programs / "python"), str(wheels["maxview_probe"])]
    subprocess.run(words, cwd=ROOT, check=True)
    after = set(subprocess.run(listed, check=True, capture_output=True, text=True).stdout.splitlines())
    assert [line.partition(" ")[0] for line in after - before] == ["maxview-probe"]
    (tmp_path / "test_norm.py").write_text(TEST)
    done = subprocess.run(
        [programs / "pytest", "-q", "test_norm.py"], cwd=tmp_path, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout + done.stderr
