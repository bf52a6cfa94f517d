"""Processes started by the tests end with them, also if the tests are killed."""

import subprocess
import sys
from pathlib import Path

import psutil

ROOT = Path(__file__).parent.parent
KILLED = """
import os, subprocess
def test_killed(if_killed):
    server = subprocess.Popen(['sleep', '300'])
    with if_killed('sh', '-c', f'kill -9 {server.pid}'):
        open('pid', 'w').write(str(server.pid))
        os.kill(os.getpid(), 9)
"""


def test_a_server_ends_with_killed_tests(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_bytes((ROOT / "tests" / "conftest.py").read_bytes())
    (tmp_path / "test_killed.py").write_text(KILLED)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_killed.py"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, check=False, timeout=300)
    assert done.returncode == -9, done.stdout
    server = int((tmp_path / "pid").read_text())
    if psutil.pid_exists(server):  # the signal's time to arrive
        psutil.Process(server).wait(60)
