"""An embedded server that commands can no longer find ends: its home was removed, or has another server."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.launch.processes import start_of
from tasks.services.embedded_server import Server, ServerFiles

pytestmark = pytest.mark.flows

WATCH = """
import sys
from pathlib import Path
from tasks.services.embedded_server import _end_unused
from tasks.services.embedded_server import ServerFiles
print("up", flush=True)
_end_unused(ServerFiles(Path(sys.argv[1]), "key"), 600.0)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The part of a server that ends it after ten minutes without a user."""
    folder = tmp_path / "home" / "maxview"
    folder.mkdir(parents=True)
    argv = [sys.executable, "-c", WATCH, str(folder)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    yield process
    process.kill()
    process.communicate()


def test_its_home_was_removed(server: subprocess.Popen[str], tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "home")
    assert server.wait(timeout=60) == -signal.SIGTERM


def test_its_home_has_another_server(server: subprocess.Popen[str], tmp_path: Path) -> None:
    files = ServerFiles(tmp_path / "home" / "maxview", "key")
    boot, created = start_of(os.getpid())
    other = Server(name="key", pid=os.getpid(), created=created, boot=boot, log="", port=1)
    files.address.write_text(other.model_dump_json())
    assert server.wait(timeout=60) == -signal.SIGTERM
    assert files.address.exists()
