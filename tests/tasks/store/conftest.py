"""Both implementations of files."""

from pathlib import Path

import pytest

from tasks.store.files import Files, LocalFiles
from tasks.store.gcs import GcsFiles


@pytest.fixture(params=["local", "gs"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    """Both implementations of files, each empty."""
    if request.param == "local":
        return LocalFiles(tmp_path / "files")
    return GcsFiles(request.getfixturevalue("gcs_url"))
