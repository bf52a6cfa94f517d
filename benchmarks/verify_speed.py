"""Measures how fast each level of verification is, beside Orbax restoring and crc32c reading the same checkpoint.

    uv run python -m benchmarks.verify_speed [--megabytes 512] [--arrays 16] [--folder /tmp] [--repeats 3] [--cold]

Every time is the best of the repeats. The files are in the kernel's page cache, unless --cold drops them from it before
each measurement. The memory is the peak of a process that only records the content, and the peak before it begins.
"""

import argparse
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import psutil

from tasks.verify.verification import verify_checkpoint

COLUMNS = 8192
RECORD = """
import sys
from pathlib import Path
from tasks.verify.verification import verify_checkpoint

def peak():  # of this process alone: ru_maxrss begins with the value of the parent
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024

before = peak()
assert verify_checkpoint(Path(sys.argv[1]), manifest=Path(sys.argv[2]), mode="record").ok
print(peak(), before)
"""

type Shapes = dict[str, tuple[int, int]]


def choose_shapes(megabytes: int, arrays: int) -> Shapes:
    """Return the shapes of equal float32 arrays with this total size."""
    rows = max(1, megabytes * 2**20 // 4 // COLUMNS // arrays)
    return {f"layer_{number}": (rows, COLUMNS) for number in range(arrays)}


def save(folder: Path, shapes: Shapes) -> float:
    """Save step 0 as MaxText does, with noise, which does not compress; return the seconds."""
    import jax
    import jax.numpy as jnp
    import orbax.checkpoint as ocp

    tree = {
        name: {"kernel": jax.random.normal(jax.random.key(i), shape, jnp.float32)}
        for i, (name, shape) in enumerate(shapes.items())
    }
    jax.block_until_ready(tree)
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=True, use_zarr3=True)
    started = time.perf_counter()
    with ocp.CheckpointManager(folder, item_names=("items",), item_handlers={"items": handler}) as manager:
        manager.save(0, args=ocp.args.Composite(items=ocp.args.PyTreeSave(tree)))
        manager.wait_until_finished()
    return time.perf_counter() - started


def restore(folder: Path, shapes: Shapes) -> None:
    """Restore every value with Orbax, the peer of the deep level."""
    import jax
    import orbax.checkpoint as ocp

    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    tree = {name: {"kernel": jax.ShapeDtypeStruct(shape, "float32", sharding=here)} for name, shape in shapes.items()}
    restore_args = ocp.checkpoint_utils.construct_restore_args(tree)
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=True, use_zarr3=True)
    with ocp.CheckpointManager(folder, item_names=("items",), item_handlers={"items": handler}) as manager:
        restored = manager.restore(
            0, args=ocp.args.Composite(items=ocp.args.PyTreeRestore(tree, restore_args=restore_args))
        )
        jax.block_until_ready(restored["items"])


def crc32c_alone(step: Path) -> None:
    """Compute the crc32c of the same files, one after the other: the peer of the levels with crc32c."""
    for path in step.rglob("*"):
        if path.is_file():
            crc = 0
            with path.open("rb") as file:
                while block := file.read(256 << 10):
                    crc = google_crc32c.extend(crc, block)


def drop_from_memory(step: Path) -> None:
    for path in step.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def best_of(repeats: int, work: Callable[[], object], before: Callable[[], None]) -> float:
    seconds = []
    for _ in range(repeats):
        before()
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--arrays", type=int, default=16)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cold", action="store_true")
    given = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    work = Path(tempfile.mkdtemp(prefix="verify_speed.", dir=given.folder))
    try:
        step = work / "run" / "checkpoints" / "0"
        shapes = choose_shapes(given.megabytes, given.arrays)
        save_s = save(step.parent, shapes)
        size = sum(path.stat().st_size for path in step.rglob("*") if path.is_file())
        manifest = work / "manifest.json"

        def check(**options: object) -> None:
            proof = verify_checkpoint(step, manifest=manifest, **options)  # type: ignore[arg-type]
            assert proof.ok, proof.problems

        def record() -> None:
            manifest.unlink(missing_ok=True)
            check(mode="record")

        rows: list[tuple[str, Callable[[], object]]] = [
            ("commit, metadata, ranges", check),
            ("record (crc32c of every file)", record),
            ("check (crc32c of every file)", lambda: check(mode="check")),
            ("peer: crc32c alone, one thread", lambda: crc32c_alone(step)),
            ("deep (every value decoded)", lambda: check(deep=True)),
            ("peer: Orbax restore", lambda: restore(step.parent, shapes)),
        ]
        versions = ", ".join(f"{n} {importlib.metadata.version(n)}" for n in ("orbax-checkpoint", "tensorstore", "jax"))
        print(
            f"{size / 1e9:.3f} GB in {given.arrays} arrays, {platform.machine()}, {os.cpu_count()} cores, ",
            end="",
        )
        print(f"{psutil.virtual_memory().total / 2**30:.0f} GiB, load {os.getloadavg()[0]:.1f}, {versions}")
        print(f"google-crc32c {importlib.metadata.version('google-crc32c')} ({google_crc32c.implementation}), ", end="")
        print(f"{'cold' if given.cold else 'cached'} files, best of {given.repeats}")
        print(f"{'':34}{'seconds':>10}{'GB/s':>9}")
        print(f"{'peer: Orbax save, once':34}{save_s:10.3f}{size / 1e9 / save_s:9.2f}")
        for name, action in rows:
            seconds = best_of(given.repeats, action, lambda: drop_from_memory(step) if given.cold else None)
            # the first level reads no payload, so bytes per second would be meaningless
            rate = "–" if action is check else f"{size / 1e9 / seconds:.2f}"
            print(f"{name:34}{seconds:10.3f}{rate:>9}", flush=True)
        argv = [sys.executable, "-c", RECORD, str(step), str(work / "again.json")]
        peak, before = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
        print(f"peak memory of a process that records: {peak} MiB, of which {before} MiB are its imports")
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
