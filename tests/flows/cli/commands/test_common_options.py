"""Options of the command line, as the flows get them."""

from pathlib import Path

import pytest

from flows.cli.commands.common_options import absolute_place


def test_a_path_means_the_same_in_another_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "logs" / "today").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    Path("today").symlink_to(tmp_path / "logs" / "today")
    assert absolute_place("run.log") == str(tmp_path / "work" / "run.log")
    assert absolute_place("../logs/*.log") == str(tmp_path / "logs" / "*.log")
    assert absolute_place("today/../run.log") == str(tmp_path / "logs" / "run.log")  # as the system resolves it
    assert absolute_place("gs://bucket/a/../b") == "gs://bucket/a/../b"
