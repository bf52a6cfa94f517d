"""Compares the values of two checkpoints of 1 GB each, beside reading both with TensorStore: seconds, memory, ratio.

`python -m benchmarks.checkpoint_difference [--gb 1.0] [--folder /tmp/x]`; each side runs in a process of its own.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WIDTH, ROWS = 2048, 4096  # an array of 32 MiB


def save(folder: Path, gigabytes: float, nudge: float) -> None:
    """A checkpoint of `gigabytes`, every second array of which is shifted by `nudge`."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp
    import orbax.checkpoint as ocp

    count = max(1, round(gigabytes * 1e9 / (4 * WIDTH * ROWS)))
    tree = {f"w{n}": jax.random.normal(jax.random.key(n), (ROWS, WIDTH)) + nudge * (n % 2) for n in range(count)}
    with ocp.CheckpointManager(folder, item_names=("items",)) as manager:
        state = {"params": {"params": tree}, "step": jnp.int32(1)}
        manager.save(1, args=ocp.args.Composite(items=ocp.args.PyTreeSave(state)))


def read_both(folders: list[Path]) -> None:
    """The lower bound: read and decode every chunk of both, four at a time."""
    from concurrent.futures import ThreadPoolExecutor

    from etils import epath

    from tasks.verify.layout import list_files
    from tasks.verify.ocdbt import patient_context, read_index
    from tasks.verify.value_differences import Side

    work = []
    for folder in folders:
        item = epath.Path(folder / "1" / "items")
        side = Side(item, patient_context())
        work += [(side, spec) for spec in read_index(item, list_files(item)).arrays.values()]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda one: one[0].open(one[1]).read().result().nbytes, work))


def compare(folders: list[Path]) -> None:
    """Compare with maxview."""
    from tasks.verify.against import compare_checkpoints

    found = compare_checkpoints(folders[0], folders[1])
    assert not found.equal


def measure(what: str, folders: list[Path]) -> tuple[float, float, float]:
    """Return (seconds, CPU seconds, MB) of one side in its own process."""
    argv = [sys.executable, "-m", "benchmarks.checkpoint_difference", "--only", what, *map(str, folders)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    wall, cpu, memory = json.loads(done.stdout.splitlines()[-1])
    return wall, cpu, memory


def main() -> None:
    """Print both sides and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gb", type=float, default=1.0)
    parser.add_argument("--only", choices=("save", "read", "compare"))
    parser.add_argument("folders", type=Path, nargs="*")
    given = parser.parse_args()
    if given.only:
        begun = time.perf_counter()
        if given.only == "save":
            for folder, nudge in zip(given.folders, (0.0, 1e-3), strict=True):
                save(folder, given.gb, nudge)
        else:
            (read_both if given.only == "read" else compare)(given.folders)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        print(json.dumps([time.perf_counter() - begun, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]))
        return
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place, name) for name in ("a", "b")]
        argv = [sys.executable, "-m", "benchmarks.checkpoint_difference", "--gb", str(given.gb), "--only", "save"]
        subprocess.run([*argv, *map(str, folders)], check=True, capture_output=True)
        measure("read", folders)  # both sides find the files in the page cache
        rounds = [(measure("read", folders), measure("compare", folders)) for _ in range(3)]
    for name, side in (("read both", 0), ("compare", 1)):
        best = min(one[side] for one in rounds)
        print(f"{name:10} {best[0]:6.2f} s  {best[1]:6.2f} CPU-s  {best[2]:6.0f} MB")
    print(f"ratio {min(b[0] for _, b in rounds) / min(a[0] for a, _ in rounds):.2f} (of the best of three)")


if __name__ == "__main__":
    main()
