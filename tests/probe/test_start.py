"""The programs that are started by their path bring their own package."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from maxview_probe.inject import INJECTED, START

pytestmark = pytest.mark.flows


def test_a_module_runs_where_maxview_is_not_installed(tmp_path: Path) -> None:
    argv = [sys.executable, "-S", str(START), "turns.process_end"]  # -S: no site-packages
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(argv, env=environment, cwd=tmp_path, check=True, timeout=60)
    code = "import maxview_probe"
    done = subprocess.run([sys.executable, "-S", "-c", code], env=environment, cwd=tmp_path, capture_output=True)
    assert b"No module named 'maxview_probe'" in done.stderr


def test_an_observed_process_gets_this_package_and_not_an_installed_one(tmp_path: Path) -> None:
    (tmp_path / "maxview_probe").mkdir()
    (tmp_path / "maxview_probe" / "__init__.py").write_text("")
    (tmp_path / "settings.json").write_text('{"lines_only": true}')
    environment = os.environ | {
        "PYTHONPATH": f"{INJECTED}{os.pathsep}{tmp_path}",
        "MAXVIEW_OBSERVE": str(tmp_path / "settings.json"),
    }
    argv = [sys.executable, "-c", "import maxview_probe as m; print(m.__file__)"]
    done = subprocess.run(argv, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert Path(done.stdout.strip()).parent == INJECTED.parent
