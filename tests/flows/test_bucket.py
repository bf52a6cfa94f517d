"""Commands whose store is a bucket: nothing is different but where things are."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.store.gcs import GcsFiles

SERVER = Path(__file__).parent.parent / "standins" / "gcs.py"


@pytest.fixture
def bucket(user_environment: dict[str, str], tmp_path: Path) -> Iterator[dict[str, str]]:
    """A user's environment in which gs://bucket is on loopback."""
    server = subprocess.Popen([sys.executable, str(SERVER), "bucket"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        yield user_environment | {
            "STORAGE_EMULATOR_HOST": address,
            "TENSORSTORE_GCS_HTTP_URL": address,
            "GOOGLE_AUTH_TOKEN_FOR_TESTING": "x",
            "NO_GCE_CHECK": "true",
            "FSSPEC_GS_TOKEN": "anon",
            "GOOGLE_CLOUD_PROJECT": "p",
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
            "XDG_CACHE_HOME": str(tmp_path / "one machine"),
        }
    finally:
        server.terminate()
        server.wait(10)
        if server.stdout is not None:
            server.stdout.close()


def test_a_comparison_in_a_bucket_is_there_for_every_machine(
    maxview: Callable[..., subprocess.CompletedProcess[str]],
    bucket: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ("compare", "linen-vs-nnx", "--set", "steps=3", "--out", "gs://bucket/team")
    done = maxview(*words, environment=bucket)
    assert done.returncode == 0, done.stderr
    assert "--out gs://bucket/team" in " ".join(done.stdout.split())
    for name in ("STORAGE_EMULATOR_HOST", "NO_GCE_CHECK", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.setenv(name, bucket[name])
    files = GcsFiles("gs://bucket/team")
    names = [entry.name for entry in files.entries()]
    assert sum(name.endswith("/record.json") for name in names) == 2
    assert sum(name.endswith("/comparison.json") for name in names) == 1
    assert sum(name.endswith("/index.html") for name in names) == 1
    assert sum(name.startswith("history/") and name.endswith(".parquet") for name in names) == 1
    assert not any(name.endswith("/writer.json") for name in names)
    before = {entry.name: entry.version for entry in files.entries("runs")}
    again = maxview(*words, environment=bucket | {"XDG_CACHE_HOME": str(tmp_path / "another machine")})
    assert again.returncode == 0, again.stderr
    assert {entry.name: entry.version for entry in files.entries("runs")} == before  # nothing was trained again
