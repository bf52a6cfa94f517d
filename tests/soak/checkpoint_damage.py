"""Damages real checkpoints in all known ways, and prints whether verification and Orbax's restore notice it.

    python -m tests.soak.checkpoint_damage [--healthy 200] [--no-bucket] 2>/dev/null   # hides Orbax's log

Tests every kind of damage × every layout × on a disk and in a bucket (the tests' server on loopback). Found: a problem
is reported after the content was recorded; named: the problem's path is the damaged file. Exit status: 0 if all damage
is found and named and no healthy checkpoint has a problem, else 1.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import numpy as np

from benchmarks.machine import describe_machine

ROOT = Path(__file__).parents[2]
SAVERS = ROOT / "tests" / "tasks" / "verify"
LAYOUTS = ("ocdbt-zarr3", "ocdbt-zarr2", "plain-zarr3", "plain-zarr2")
BY_V1 = 16  # checkpoints that saver_v1.py writes


def payload(step: Path) -> Path:
    """Return the largest file, which holds data in every layout."""
    return max((path for path in step.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)


def index(step: Path) -> Path:
    """Return the file that locates the data: OCDBT's manifest, or an array's metadata."""
    names = ("manifest.ocdbt", "zarr.json", ".zarray")
    return next(path for name in names for path in sorted((step / "items").rglob(name)))


def item(name: str) -> Callable[[Path], Path]:
    return lambda step: step / "items" / name


def top(name: str) -> Callable[[Path], Path]:
    return lambda step: step / name


def change(how: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_bytes(how(path.read_bytes()))

    return damage


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0x10]) + data[middle + 1 :]


def zero(data: bytes) -> bytes:
    middle = len(data) // 2
    hole = min(4096, len(data) - middle)
    return data[:middle] + bytes(hole) + data[middle + hole :]


def drop_leaf(data: bytes) -> bytes:
    tree = json.loads(data)
    tree["tree_metadata"].pop(next(iter(tree["tree_metadata"])))
    return json.dumps(tree).encode()


halve, empty = change(lambda data: data[: len(data) // 2]), change(lambda data: b"")
DAMAGE: dict[str, tuple[Callable[[Path], Path], Callable[[Path], None]]] = {
    "data: deleted": (payload, Path.unlink),
    "data: halved": (payload, halve),
    "data: emptied": (payload, empty),
    "data: one bit": (payload, change(flip)),
    "data: 4 KiB of zeros": (payload, change(zero)),
    "data: a byte more": (payload, change(lambda data: data + b"x")),
    "index: deleted": (index, Path.unlink),
    "index: halved": (index, halve),
    "index: emptied": (index, empty),
    "index: one bit": (index, change(flip)),
    "tree: deleted": (item("_METADATA"), Path.unlink),
    "tree: halved": (item("_METADATA"), halve),
    "tree: a leaf less": (item("_METADATA"), change(drop_leaf)),
    "layouts of devices: deleted": (item("_sharding"), Path.unlink),
    "descriptions: deleted": (item("array_metadatas/process_0"), Path.unlink),
    "descriptions: one bit": (item("array_metadatas/process_0"), change(flip)),
    "commit: deleted": (top("_CHECKPOINT_METADATA"), Path.unlink),
    "commit: halved": (top("_CHECKPOINT_METADATA"), halve),
    "item: gone": (top("items"), shutil.rmtree),
}


def restore(step: Path) -> bool:
    """Return whether Orbax's own restore raises."""
    import orbax.checkpoint as ocp

    checkpointer = ocp.PyTreeCheckpointer()
    try:
        structure = checkpointer.metadata(step / "items").item_metadata.tree
        import jax

        arguments = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), structure)
        checkpointer.restore(step / "items", restore_args=arguments)
    except Exception:  # any exception counts as noticed
        return True
    return False


@contextmanager
def bucket() -> Iterator[str]:
    """Yield the address of a bucket on loopback; the clients' variables point to it."""
    argv = [sys.executable, str(ROOT / "tests" / "standins" / "gcs.py"), "bucket"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        os.environ |= {
            "STORAGE_EMULATOR_HOST": address, "TENSORSTORE_GCS_HTTP_URL": address,
            "GOOGLE_AUTH_TOKEN_FOR_TESTING": "x", "NO_GCE_CHECK": "true", "FSSPEC_GS_TOKEN": "anon",
            "GOOGLE_CLOUD_PROJECT": "p", "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        }  # fmt: skip
        try:
            yield "gs://bucket"
        finally:
            server.terminate()


def upload(step: Path, address: str) -> str:
    """Upload a step into a new folder; return its address."""
    from tasks.store.gcs import GcsFiles

    place = f"{address}/{uuid4().hex}"
    files = GcsFiles(place)
    for path in (path for path in step.rglob("*") if path.is_file()):
        files.upload(f"{step.name}/{path.relative_to(step).as_posix()}", path)
    return f"{place}/{step.name}"


def save(folder: Path, layout: str, steps: int) -> list[Path]:
    argv = [
        sys.executable,
        str(SAVERS / "saver.py"),
        str(folder),
        "--layout",
        layout,
        "--steps",
        *map(str, range(steps)),
    ]
    subprocess.run(argv, check=True, capture_output=True)
    return [folder / str(step) for step in range(steps)]


def count_false_alarms(steps: list[Path]) -> int:
    """Return the number of healthy checkpoints with a reported problem, when recorded or when decoded and checked."""
    from tasks.verify.verification import verify_checkpoint

    wrong = 0
    for number, step in enumerate(steps):
        manifest = step.parent / f"manifest-{number}.json"
        proofs = [verify_checkpoint(step, mode="record", manifest=manifest)]
        proofs.append(verify_checkpoint(step, mode="check", manifest=manifest, deep=True))
        if not all(proof.ok for proof in proofs):
            print("false alarm:", step, [proof.problems for proof in proofs])
            wrong += 1
    return wrong


def show_damage(steps: dict[str, Path], address: str | None, folder: Path) -> bool:
    """Print a line for every kind of damage; return whether all were found and named."""
    from tasks.verify.verification import verify_checkpoint

    all_named = True
    for kind, (choose, damage) in DAMAGE.items():
        cells = []
        for layout, step in steps.items():
            shutil.rmtree(folder / "copy", ignore_errors=True)
            copy, manifest = folder / "copy" / step.name, folder / "copy" / "manifest.json"
            shutil.copytree(step, copy)
            verify_checkpoint(copy, mode="record", manifest=manifest)
            victim = choose(copy)
            if not victim.exists():
                cells.append(f"{layout} –")
                continue
            name = victim.relative_to(copy).as_posix()
            damage(victim)
            places = [str(copy)] + ([upload(copy, address)] if address else [])
            reported = []
            for place in places:
                proof = verify_checkpoint(place, mode="check", manifest=manifest)
                named = any(name in problem.path or problem.path.startswith(name) for problem in proof.problems)
                reported.append("named" if named else "found" if not proof.ok else "MISSED")
                all_named &= named
            noticed = "noticed" if restore(copy) else "not noticed"
            cells.append(f"{layout} {'/'.join(reported)} (Orbax: {noticed})")
        print(f"{kind:28} " + "; ".join(cells), flush=True)
    return all_named


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--healthy", type=int, default=200)
    parser.add_argument("--no-bucket", action="store_true")
    given = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    print(describe_machine())
    each = max(1, (given.healthy - BY_V1) // len(LAYOUTS))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        healthy = {layout: save(folder / layout, layout, each) for layout in LAYOUTS}
        subprocess.run(
            [sys.executable, str(SAVERS / "saver_v1.py"), str(folder / "v1")], check=True, capture_output=True
        )
        by_v1 = sorted({path.parent for path in (folder / "v1").rglob("_CHECKPOINT_METADATA")})
        steps = [*(step for steps in healthy.values() for step in steps), *by_v1]
        wrong = count_false_alarms(steps)
        print(f"healthy: {wrong} false alarms on {len(steps)}, {len(by_v1)} of them by Orbax's v1", flush=True)
        damaged = {layout: steps[-1] for layout, steps in healthy.items()}
        if given.no_bucket:
            named = show_damage(damaged, None, folder)
        else:
            with bucket() as address:
                named = show_damage(damaged, address, folder)
    return 0 if named and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
