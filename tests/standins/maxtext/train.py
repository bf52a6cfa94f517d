"""Stands in for MaxText's trainer: reads its arguments, writes log, JSON and TensorBoard files like 0.2.4."""

import json
import os
import sys


def say(text: str) -> None:
    """One line of the log."""
    sys.stdout.write(f"I0418 00:55:00.000001 1 {text}\n")
    sys.stdout.flush()


base, *words = sys.argv[1:]
if not os.path.isfile(base):  # MaxText's own lookup in an image without a checkout
    inside = base.removeprefix("src/maxtext/configs/")
    base = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "configs", inside)
    assert os.path.isfile(base), base
config = {key: "" if value == '""' else value for key, value in (word.split("=", 1) for word in words)}
say("max_utils.py:1] System Information: Jax Version: 0.10.2")
say(f"train.py:1] started in {os.getcwd()}")
place, name = config["base_output_directory"], config["run_name"]
board = None
# the first of several processes writes them; no program reads them if there are JSON lines
if os.environ.get("JOB_COMPLETION_INDEX", "0") == "0" and not config["metrics_file"]:
    from tensorboardX import SummaryWriter

    board = SummaryWriter(f"{place}/{name}/tensorboard/{name}")
    board.add_text("num_model_parameters", "1104000")
with open(config["metrics_file"] or os.devnull, "a") as metrics:
    for step in range(int(config["steps"])):
        loss = 9.0 - step / 7 - (0.01 if config.get("pure_nnx") == "true" else 0.0)
        say(
            f"metric_logger.py:206] completed step: {step}, seconds: 0.500, TFLOP/s/device: 1.000, "
            f"Tokens/s/device: 8.000, total_weights: 8, loss: {loss:.3f}"
        )
        line = {
            "learning/loss": loss, "learning/grad_norm": 1.0, "learning/param_norm": 2.0,
            "learning/total_weights": 8.0, "perf/step_time_seconds": 0.5, "step": float(step), "run_name": "r",
        }  # fmt: skip
        metrics.write(json.dumps(line) + "\n")
        if board is not None:
            for key in line.keys() - {"step", "run_name"}:
                board.add_scalar(key, line[key], step)
if board is not None:
    board.close()
