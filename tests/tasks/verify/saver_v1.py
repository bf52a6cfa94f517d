"""Saves real checkpoints with Orbax's v1, in FOLDER/<layout>/{plain, several, managed/0, managed/9}."""

import itertools
import sys
from pathlib import Path

import orbax.checkpoint.experimental.v1 as ocp
from saver import make_tree


def main() -> None:
    for container, zarr in itertools.product(("ocdbt", "plain"), ("zarr3", "zarr2")):
        folder = Path(sys.argv[1], f"{container}-{zarr}")
        folder.mkdir(parents=True)
        saving = ocp.options.ArrayOptions.Saving(use_ocdbt=container == "ocdbt", use_zarr3=zarr == "zarr3")
        with ocp.Context(array_options=ocp.options.ArrayOptions(saving=saving)):
            ocp.save_pytree(folder / "plain", make_tree(3, 64, False))
            ocp.save_checkpointables(folder / "several", {"state": make_tree(3, 64, False), "data": {"position": 7}})
            with ocp.training.Checkpointer(folder / "managed") as checkpointer:
                for step in (0, 9):
                    checkpointer.save_pytree(step, make_tree(step, 64, False))


if __name__ == "__main__":
    main()
