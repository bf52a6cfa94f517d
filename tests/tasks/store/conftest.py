"""A bucket on loopback that the real clients talk to, and both kinds of files."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tasks.store.files import Files, LocalFiles
from tasks.store.gcs import GcsFiles

SERVER = Path(__file__).parents[2] / "standins" / "gcs.py"


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[str]:
    """The address of a storage server on loopback with the bucket `bucket`."""
    server = subprocess.Popen([sys.executable, str(SERVER), "bucket"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.wait(10)
        server.stdout.close()  # type: ignore[union-attr]


@pytest.fixture(scope="session")
def gcs_environment(gcs_server: str) -> dict[str, str]:
    """What makes every client of Google's storage talk to the server on loopback, and to nobody else."""
    return {
        "STORAGE_EMULATOR_HOST": gcs_server,
        "TENSORSTORE_GCS_HTTP_URL": gcs_server,
        "GOOGLE_AUTH_TOKEN_FOR_TESTING": "x",
        "NO_GCE_CHECK": "true",
        "FSSPEC_GS_TOKEN": "anon",
        "GOOGLE_CLOUD_PROJECT": "p",
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
    }


@pytest.fixture
def gcs_url(gcs_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """A prefix in the bucket that no other test uses."""
    for name, value in gcs_environment.items():
        monkeypatch.setitem(os.environ, name, value)
    return f"gs://bucket/{uuid4().hex}"


@pytest.fixture(params=["local", "gs"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    """Both kinds of files, each empty."""
    if request.param == "local":
        return LocalFiles(tmp_path / "files")
    return GcsFiles(request.getfixturevalue("gcs_url"))
