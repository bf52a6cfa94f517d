"""A branch's trainer writes into a checkout: the next run starts from its commit's files, or not at all."""

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.launch import job
from tasks.launch.local import process_group
from tasks.launch.local.handle import LocalHandle
from tasks.records.plan import RunPlan
from tasks.resolve.checkout import CheckoutError, check_checkout, make_checkout
from tasks.store.directories import RunDirectory
from tasks.store.store import Store

pytestmark = pytest.mark.flows

type MakePlan = Callable[..., RunPlan]
# bytecode that Python runs instead of the source if its recorded time and size match
HOSTILE = """
import importlib.util, marshal, pathlib, struct, sys
source = pathlib.Path(sys.argv[1]) / "model" / "train.py"
facts = struct.pack("<II", int(source.stat().st_mtime), source.stat().st_size)
code = compile("print('owned')", str(source), "exec")
target = pathlib.Path(importlib.util.cache_from_source(str(source)))
target.parent.mkdir()
target.write_bytes(importlib.util.MAGIC_NUMBER + struct.pack("<I", 0) + facts + marshal.dumps(code))
"""
TRAINER = (sys.executable, "-c", "import model.train")


def run(plan: RunPlan, directory: RunDirectory) -> str:
    """The log of the finished run."""
    launched = job.launch_or_attach(plan, directory)
    assert isinstance(launched.handle, LocalHandle)
    return b"".join(piece for piece in job.follow(launched) if isinstance(piece, bytes)).decode()


def test_a_branch_cannot_change_the_code_of_the_next_run(
    make_plan: MakePlan,
    repository: Path,
    run_git: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_group, "has_devices", lambda: True)  # a machine without confinement
    shas = [run_git("rev-parse", name) for name in ("main", "feat/x")]
    main, branch = (make_checkout(str(repository), sha, tmp_path / "cache") for sha in shas)
    hostile = make_plan(HOSTILE, str(main), checkout=str(branch), commit=shas[1], environment={})
    honest = make_plan("", argv=TRAINER, checkout=str(main), commit=shas[0])
    store = Store(tmp_path / "out")
    assert run(honest, store.run("first")).splitlines()[1:2] == ["one"]
    check_checkout(str(main), shas[0])  # Python writes no bytecode into it
    assert "EXIT_CODE=0" in run(hostile, store.run("hostile"))

    # without the check of its files, the branch's code would run as main's
    environment = process_group.build_environment(honest, {})
    fooled = subprocess.run(TRAINER, cwd=main, env=environment, capture_output=True, text=True, check=True)
    assert fooled.stdout == "owned\n"

    with pytest.raises(CheckoutError, match="is no longer commit"):
        run(honest, store.run("second"))
    assert not store.run("second").log.exists()
    make_checkout(str(repository), shas[0], tmp_path / "cache")
    assert run(honest, store.run("second")).splitlines()[1:2] == ["one"]


def test_a_target_can_remove_the_network(
    make_plan: MakePlan, directory: RunDirectory, free_port: Callable[[], int]
) -> None:
    words = ("unshare", "--user", "--map-current-user", "--net", "--")
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces for this user")
    with socket.create_server(("127.0.0.1", free_port())) as server:
        code = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]})); print('reached')"
        plan = make_plan(code)
        log = run(plan.replace(argv=(*words, *plan.argv)), directory)
    assert "unreachable" in log
    assert "reached\n" not in log
