"""A checkpoint in a bucket with faults: the real clients against the server on loopback."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from flows.cli.app import call_command
from tasks.store.gcs import GcsFiles
from tasks.verify.compare_checkpoints import compare_checkpoints
from tasks.verify.layout import CheckpointError
from tasks.verify.verification import verify_checkpoint, verify_checkpoints

pytestmark = pytest.mark.long

SERVER = Path(__file__).parents[2] / "standins" / "gcs.py"

type Order = Callable[..., None]


@pytest.fixture
def order(gcs_server: str) -> Iterator[Order]:
    """order(kind, times, …): set the faults; they are removed after the test."""

    def tell(kind: str, times: int, **more: str) -> None:
        fault = {"kind": kind, "times": times, **more}
        httpx.post(f"{gcs_server}/_faults", json=[fault]).raise_for_status()

    yield tell
    httpx.post(f"{gcs_server}/_faults", json=[])


@pytest.fixture
def remote(trees: Path, gcs_url: str) -> str:
    """A run's address; real Orbax saved its one step on a disk."""
    return upload(trees / "nnx", gcs_url)


def upload(folder: Path, url: str) -> str:
    files = GcsFiles(url)
    for path in (path for path in folder.rglob("*") if path.is_file()):
        files.upload(path.relative_to(folder).as_posix(), path)
    return url


# the clients retry for 20 seconds
@pytest.mark.parametrize(
    "kind", [*(pytest.param(kind, marks=pytest.mark.long) for kind in ("429", "503", "cut")), "slow"]
)
def test_a_bucket_with_temporary_faults_is_read(remote: str, order: Order, kind: str) -> None:
    order(kind, 3)
    (proof,) = verify_checkpoints(remote, mode="record", deep=True)
    assert proof.problems == ()
    assert proof.levels[-2:] == ("content recorded", "decoded and finite")
    order(kind, 3)
    (proof,) = verify_checkpoints(remote, mode="check")
    assert proof.levels[-1] == "content unchanged"


def test_a_stale_listing_is_not_damage(remote: str, order: Order) -> None:
    order("stale", 1, name="/_sharding")
    (proof,) = verify_checkpoints(remote)
    assert proof.problems == ()
    order("stale", 1000, name="/_sharding")  # permanently: the file may as well be missing
    (proof,) = verify_checkpoints(remote)
    assert {problem.path for problem in proof.problems} == {"items/_sharding"}


def test_damage_in_a_bucket_is_named(remote: str) -> None:
    (proof,) = verify_checkpoints(remote, mode="record")
    files = GcsFiles(remote)
    name = max((e.name for e in files.entries("checkpoints")), key=lambda n: len(files.read(n) or b""))
    content = bytearray(files.read(name) or b"")
    content[len(content) // 2] ^= 1
    files.write(name, bytes(content))
    (proof,) = verify_checkpoints(remote, mode="check")
    assert {problem.path for problem in proof.problems if problem.check == "manifest"} == {name.split("/", 2)[2]}


def test_a_bucket_and_a_disk_are_compared(remote: str, trees: Path) -> None:
    assert compare_checkpoints(remote, trees / "linen").equal


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("gs://nowhere/run", "nowhere"),
        ("gs://blind/run", "you may not do this"),
        ("gs://bucket/no/such/run", "does not exist"),
    ],
)
def test_a_missing_bucket_right_or_run_is_one_message(
    gcs_url: str, capsys: pytest.CaptureFixture[str], place: str, words: str
) -> None:
    with pytest.raises(CheckpointError):
        verify_checkpoint(place)
    assert call_command(["verify", place]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("maxview: ")) == ("", 1)
    assert words in shown.err


@pytest.mark.long  # the client retries for 20 seconds
def test_an_unreachable_bucket_is_one_message(
    gcs_url: str, free_port: Callable[[], int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{free_port()}")
    assert call_command(["verify", gcs_url]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert re.fullmatch(rf"maxview: {gcs_url}/: [^\n]*\(RetryError\)[^\n]*\n", shown.err)


@pytest.fixture
def order_own(gcs_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Order]:
    """As `order`, for a separate server with the bucket `bucket`: faults after a number of reads."""
    with subprocess.Popen([sys.executable, SERVER, "bucket"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        for name, value in gcs_environment.items():
            monkeypatch.setenv(name, address if value.startswith("http") else value)

        def tell(kind: str, reads: int) -> None:
            faults = [{"kind": kind, "times": 1, "after": reads}]
            httpx.post(f"{address}/_faults", json=faults).raise_for_status()

        yield tell
        server.kill()


@pytest.mark.parametrize(
    ("words", "reads", "kind", "reported"),
    [
        (("--record",), 6, "gone", "there is no such bucket"),
        (("--against", "linen"), 3, "gone", "there is no such bucket"),
        (("--deep",), 8, "gone", "there is no such bucket"),
        # the clients retry for half a minute
        pytest.param(("--against", "linen"), 3, "end", "does not answer (RetryError)", marks=pytest.mark.long),
    ],
)
def test_a_bucket_that_becomes_unreachable_is_one_message(
    words: tuple[str, ...],
    reads: int,
    kind: str,
    reported: str,
    order_own: Order,
    trees: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    place = upload(trees / "nnx", "gs://bucket/run")
    order_own(kind, reads)
    assert call_command(["verify", place, *(str(trees / word) if word == "linen" else word for word in words)]) == 2
    shown = capfd.readouterr()
    errors = [
        line for line in shown.err.splitlines() if "google_auth_provider" not in line
    ]  # TensorStore's first message
    assert (shown.out, len(errors)) == ("", 1)
    assert errors[0].startswith("maxview: gs://bucket")
    assert reported in errors[0]


def test_proofs_before_the_loss_of_a_bucket_are_kept(order_own: Order, trees: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(trees / "nnx", tmp_path / "run"))
    shutil.copytree(run / "checkpoints" / "4", run / "checkpoints" / "5")
    proofs = verify_checkpoints(upload(run, "gs://bucket/run"), mode="record")
    first = next(proofs)
    assert (first.step, first.ok) == (4, True)
    order_own("gone", 0)
    with pytest.raises(CheckpointError, match="there is no such bucket"):
        next(proofs)


def test_an_incomplete_save_in_a_bucket_is_not_committed(remote: str) -> None:
    assert GcsFiles(remote).delete("checkpoints/4/commit_success.txt")
    (proof,) = verify_checkpoints(remote, mode="record")
    assert (proof.ok, proof.levels, proof.manifest) == (False, (), None)
    assert not list(GcsFiles(remote).entries("manifests"))


def test_a_step_saved_again_is_recorded_again(remote: str, trees: Path, tmp_path: Path) -> None:
    (proof,) = verify_checkpoints(remote, mode="record")
    copy = Path(shutil.copytree(trees / "nnx" / "checkpoints" / "4", tmp_path / "4"))
    text = (copy / "_CHECKPOINT_METADATA").read_bytes()
    assert text.count(b'"commit_timestamp_nsecs": 1') == 1
    later = text.replace(b'"commit_timestamp_nsecs": 1', b'"commit_timestamp_nsecs": 2', 1)
    GcsFiles(remote).write("checkpoints/4/_CHECKPOINT_METADATA", later)
    (again,) = verify_checkpoints(remote, mode="record")
    assert again.committed_at > proof.committed_at
    assert (again.ok, "content unchanged" in again.levels) == (True, False)
