"""The output of `scrape`: every path that cannot be written is named with a remedy, and no other file is replaced."""

import io
import os
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from flows.cli.app import call_command
from flows.cli.byte_progress import show_reads
from tasks.scrape.window import report_read
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

LOG = Path(__file__).parent.parent / "samples" / "maxview" / "13_eval-nnx.txt"
FORMATS = ("table", "json", "parquet")


@contextmanager
def without_rights() -> Iterator[None]:
    """Run the block as a user without write access everywhere, also if root runs the tests."""
    user = os.getuid()
    os.setresuid(*2 * (user or 65534,), user)
    try:
        yield
    finally:
        os.setresuid(user, user, user)


@pytest.mark.parametrize("name", FORMATS)
def test_an_output_that_is_not_a_file_is_refused_and_stays(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("as it was")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    reasons = {"folder": "is a folder", "pipe": "is a pipe", "link": "is a pipe", "file/below": "a file stands where"}
    for place, reason in reasons.items():
        assert call_command(["scrape", str(LOG), "--format", name, "-o", str(tmp_path / place)]) == 2
        said = capsys.readouterr().err
        assert f"{tmp_path / place}: {reason}" in said
        assert "Traceback" not in said
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert (tmp_path / "file").read_text() == "as it was"


@pytest.mark.parametrize("name", FORMATS)
def test_a_missing_folder_is_created(name: str, tmp_path: Path) -> None:
    place = tmp_path / "a" / "b" / "steps"
    assert call_command(["scrape", str(LOG), "--format", name, "-o", str(place)]) == 0
    assert place.stat().st_size > 500


@pytest.mark.parametrize("name", FORMATS)
def test_a_folder_without_rights_is_named(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        with without_rights():
            assert call_command(["scrape", str(LOG), "--format", name, "-o", f"{folder}/steps"]) == 2
        assert re.search(rf"{folder}/steps: .*\(Permission denied\)", capsys.readouterr().err)


def test_a_closed_terminal_gives_no_traceback(wording: Wording) -> None:
    master, terminal = os.openpty()
    os.close(master)  # each write to the terminal fails with EIO from now on
    argv = [sys.executable, "-m", "flows.cli", "scrape", str(LOG)]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.PIPE, text=True)
    os.close(terminal)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    wording("errors", line)


@pytest.mark.parametrize("stream", [1, 2])
def test_a_closed_stream_gives_no_traceback(stream: int) -> None:
    """`maxview … >&-` starts without the stream; a file opened by it must not get the stream's descriptor."""
    command = f'exec "$0" -m flows.cli scrape "$1" {stream}>&-'
    done = subprocess.run(["sh", "-c", command, sys.executable, str(LOG)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("step" in done.stdout) is (stream == 2)


@pytest.mark.parametrize("words", [["scrape", "LOG", "--format", "json"], ["ingest", "LOG", "LOG"]])
def test_the_progress_of_a_long_log_is_shown(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "long.log"
    log.write_bytes(LOG.read_bytes())
    os.truncate(log, 20_000_000)  # a hole, which takes no time
    call_command([word.replace("LOG", str(log)) for word in words])
    assert capsys.readouterr().err.startswith("reading long.log: 0 of 20 MB\n")
    call_command(["scrape", str(LOG), "--format", "json"])
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_a_bar_while_a_long_log_is_read() -> None:
    console = Console(file=(shown := io.StringIO()), force_terminal=True, width=80)
    with show_reads(console):
        report_read(Path("short.log"), 1_000_000, 2_000_000)
        assert shown.getvalue() == ""
        report_read(Path("long.log"), 1_000_000_000, 4_000_000_000)
    assert "reading long.log" in shown.getvalue()
    assert "1.0/4.0 GB" in shown.getvalue()
