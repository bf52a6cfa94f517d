"""Turns a run's numbers into the files that MaxText's guide names: TensorBoard, profile, metrics as text, config."""

import json
from collections.abc import Mapping
from typing import Any, Self

import jax
from absl import logging
from etils import epath

from configs.schema import PLACE_KEYS, TrainConfig
from model.metrics import Number, to_json

TENSORBOARD, METRICS, CONFIG = "tensorboard", "metrics", "config.yml"
# ours -> MaxText's, where TensorBoard groups by the first word; times are seconds
TAGS = {
    "step_time_s": "perf/step_time_seconds",
    "eval_loss": "eval/avg_loss",
    "learning_rate": "learning/current_learning_rate",
}


def config_lines(config: TrainConfig) -> list[str]:
    """`key: value`, as JSON writes it, which is YAML too."""
    return [f"{key}: {json.dumps(value)}" for key, value in config.model_dump().items()]


def find_changes(config: TrainConfig, folder: epath.Path) -> str:
    """What the config that began the run in this folder says otherwise: "scan_layers: true, …"; empty if it is gone."""
    if not (folder / CONFIG).exists():
        return ""
    own = {*config_lines(config)}
    lines = [line for line in (folder / CONFIG).read_text().splitlines() if line not in own]
    return ", ".join(line for line in lines if line.partition(":")[0] not in PLACE_KEYS)


class Outputs:
    """What a run writes beside its log, its metrics and its checkpoints. Only the first process writes."""

    def __init__(self, config: TrainConfig, run_directory: epath.Path):
        self.config, self.folder = config, run_directory
        self.writes = jax.process_index() == 0
        self.board: Any = None
        self.lines: list[str] = []
        self.first: int | None = None
        self.profiling = False

    def __enter__(self) -> Self:
        if self.writes and not (self.folder / CONFIG).exists():
            (self.folder / CONFIG).write_text("\n".join(config_lines(self.config)) + "\n")
        if self.writes and self.config.enable_tensorboard:
            from tensorboardX import SummaryWriter  # type: ignore[import-untyped]  # it takes a second to load

            self.board = SummaryWriter(str(self.folder / TENSORBOARD))
        return self

    def before(self, step: int) -> None:
        """Start the profiler where it is due."""
        if self.first is None:
            self.first = step
        if self.config.profiler == "xplane" and step == self.first + self.config.skip_first_n_steps_for_profiler:
            jax.profiler.start_trace(str(self.folder / TENSORBOARD))
            self.profiling = True

    def after(self, step: int, record: Mapping[str, Number]) -> None:
        """A step's numbers; the profiler ends where it is due."""
        assert self.first is not None  # `before` comes first
        last = self.first + self.config.skip_first_n_steps_for_profiler + self.config.profiler_steps - 1
        if self.profiling and step >= last:
            self._stop_profiler()
        if self.board is not None:
            for name, value in record.items():
                if name != "step":
                    self.board.add_scalar(TAGS.get(name, f"learning/{name}"), float(value), step)
        if self.config.gcs_metrics:
            self.lines.append(json.dumps({key: to_json(value) for key, value in record.items()}))

    def _stop_profiler(self) -> None:
        jax.profiler.stop_trace()
        self.profiling = False
        logging.info("profile: %s", self.folder / TENSORBOARD / "plugins" / "profile")

    def __exit__(self, *_: object) -> None:
        if self.profiling:
            self._stop_profiler()
        if self.board is not None:
            self.board.close()
        if self.writes and self.lines:
            steps = [json.loads(line)["step"] for line in (self.lines[0], self.lines[-1])]
            folder = self.folder / METRICS
            folder.mkdir(parents=True, exist_ok=True)
            name = f"metrics_step_{steps[0]:06d}_to_step_{steps[1]:06d}.txt"
            (folder / name).write_text("".join(f"{line}\n" for line in self.lines))
