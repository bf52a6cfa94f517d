"""Writes trackers.tar.gz, as in tests/samples, with the trackers' own libraries, which the project does not install.

uv run --no-project --with wandb --with mlflow --with trackio --with tensorboardX --with tensorboard \
    --with 'setuptools<81' tests/tasks/ingest/make_tracker_samples.py

Every run trains the steps 0 to 11; `loss_of` and `norm_of` are the numbers that a reader has to find.
"""

import csv
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

STEPS = 12
SAMPLES = Path("trackers.tar.gz")  # in the working folder: trackers note the folder of the program


def loss_of(step: int, seed: int = 1) -> float:
    return 4 * 0.9**step + seed / 1024


def norm_of(step: int) -> float:
    return 0.5 + step / 64


def write_tensorboard(root: Path) -> None:
    from tensorboardX import SummaryWriter

    def write(folder: str, tag: str = "train/loss", first: int = 0, last: int = STEPS) -> None:
        with SummaryWriter(str(root / folder)) as writer:
            for step in range(first, last):
                writer.add_scalar(tag, loss_of(step), step, walltime=1e9 + step / 8)
                writer.add_scalar("grad_norm", norm_of(step), step, walltime=1e9 + step / 8)

    write("tb-plain")
    write_tensors(root)
    write("tb-maxtext", "learning/loss")
    write("tb-restarted", last=8)
    time.sleep(1.1)  # the name of a file has its second
    write("tb-restarted", first=6)
    write("tb-parts/train", "loss")
    with SummaryWriter(str(root / "tb-parts/eval")) as writer:
        writer.add_scalar("loss", 2.5, 11)
    SummaryWriter(str(root / "tb-empty")).close()


def write_tensors(root: Path) -> None:
    """As TensorFlow 2, CLU and Flax write: each number is a tensor."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.plugins.scalar.summary_v2 import scalar_pb
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(root / "tb-tensors"))
    for step in range(STEPS):
        for tag, value in (("train/loss", loss_of(step)), ("grad_norm", norm_of(step))):
            writer.add_event(Event(step=step, wall_time=1e9 + step / 8, summary=scalar_pb(tag, value)))
    writer.close()


def write_wandb(root: Path) -> None:
    import wandb

    def start(folder: str) -> "wandb.Run":
        (root / folder).mkdir()
        return wandb.init(project="p", dir=root / folder, name="r1", config={"lr": 1e-3, "opt": {"name": "adam"}})

    with start("wandb-steps") as run:
        for step in range(STEPS):
            run.log({"train/loss": loss_of(step), "grad_norm": norm_of(step), "perf/step_time": 0.125}, step=step)
    with start("wandb-nested") as run:
        for step in range(STEPS):
            run.log({"train": {"loss": loss_of(step), "grad_norm": norm_of(step)}})
    with start("wandb-parts") as run:  # one step in two calls
        for step in range(STEPS):
            run.log({"loss": loss_of(step)}, step=step)
            run.log({"grad_norm": norm_of(step), "note": "a text"}, step=step)
    with start("wandb-long") as run:  # records beyond one block of 32 KiB
        for step in range(STEPS):
            run.log({"loss": loss_of(step), "grad_norm": norm_of(step), "text": "x" * 30_000}, step=step)
    run = start("wandb-failed")
    for step in range(STEPS):
        run.log({"train/loss": loss_of(step), "grad_norm": norm_of(step), "eval/loss": 2.5} if step == 11 else
                {"train/loss": loss_of(step), "grad_norm": norm_of(step)}, step=step)  # fmt: skip
    run.finish(exit_code=3)


def write_mlflow(root: Path, folder: str) -> None:
    import mlflow

    with mlflow.start_run(run_name="r1"):
        mlflow.log_params({"lr": 1e-3})
        for step in range(STEPS):
            mlflow.log_metrics({"train/loss": loss_of(step), "grad_norm": norm_of(step)}, step=step)
    if folder == "mlflow-two":
        with mlflow.start_run(run_name="r2"):
            for step in range(STEPS):
                mlflow.log_metrics({"train_loss": loss_of(step, 2), "grad_norm": float("nan")}, step=step)


def write_trackio(root: Path) -> None:
    import trackio

    for seed in (1, 2):
        trackio.init(project="p", name=f"r{seed}", config={"lr": 1e-3})
        for step in range(STEPS):
            trackio.log({"train/loss": loss_of(step, seed), "grad_norm": norm_of(step)})
        trackio.finish()


def write_plain(root: Path) -> None:
    for name in ("csv", "json"):
        (root / name).mkdir()
    with (root / "csv/metrics.csv").open("w", newline="") as file:  # as Lightning's CSVLogger writes
        table = csv.writer(file)
        table.writerow(["epoch", "grad_norm", "step", "train_loss", "val_loss"])
        for step in range(STEPS):
            table.writerow([0, norm_of(step), step, loss_of(step), ""])
        table.writerow([0, "", STEPS - 1, "", 2.5])
    with (root / "json/metrics.jsonl").open("w") as file:
        for step in range(STEPS):
            file.write(json.dumps({"step": step, "loss": loss_of(step), "grad_norm": norm_of(step)}) + "\n")


def main(what: str, root: Path) -> None:
    if what == "all":
        environment = os.environ | {
            "WANDB_MODE": "offline",
            "WANDB_SILENT": "true",
            "WANDB_DISABLE_GIT": "true",
            "WANDB_DISABLE_CODE": "true",
            "WANDB_HOST": "host",
            "LOGNAME": "user",
        }
        stores = {"mlflow-db": {}, "mlflow-two": {}, "mlflow-files": {"MLFLOW_TRACKING_URI": "file:mlruns",
                  "MLFLOW_ALLOW_FILE_STORE": "true"}}  # fmt: skip
        for one in ("tensorboard", "wandb", "plain", "trackio", *stores):
            folder = root / one if one in (*stores, "trackio") else root
            folder.mkdir(exist_ok=True)
            more = environment | stores.get(one, {}) | {"TRACKIO_DIR": str(root / "trackio")}
            subprocess.run([sys.executable, __file__, one, str(root)], cwd=folder, env=more, check=True)
        with tarfile.open(SAMPLES, "w:gz", compresslevel=9) as archive:
            archive.add(root, ".", filter=lambda one: None if one.name.endswith(("-shm", "-wal", ".lock")) or
                        "/logs" in one.name or "/files" in one.name or one.issym() else one)  # fmt: skip
    elif what.startswith("mlflow"):
        write_mlflow(root, what)
    else:
        globals()[f"write_{what}"](root)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1], Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main("all", Path(folder))
