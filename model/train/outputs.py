"""Writes the files of a run that MaxText writes too: TensorBoard events, profile, metrics as text, config."""

import json
import time
from collections.abc import Mapping
from math import inf
from typing import Any, Self

import jax
from absl import logging
from etils import epath, epy

from configs.same_run import config_lines, find_changed_keys
from configs.schema import TrainConfig
from model.train.metrics_file import Number, json_number
from model.train.run_paths import write_whole

with epy.lazy_imports():  # slow to import
    from tensorboardX import event_file_writer  # type: ignore[import-untyped]
    from tensorboardX.proto import event_pb2, summary_pb2  # type: ignore[import-untyped]

FLUSH_S = 120  # seconds between flushes of the TensorBoard events
TENSORBOARD, METRICS, CONFIG = "tensorboard", "metrics", "config.yml"
# metric -> MaxText's tag; TensorBoard groups tags by their first word. Other metrics have the tag learning/NAME.
TAGS = {
    "step_time_s": "perf/step_time_seconds",
    "eval_loss": "eval/avg_loss",
    "learning_rate": "learning/current_learning_rate",
}


class Outputs:
    """The output files of a run. Every process writes its profile; only the first one writes the other files."""

    def __init__(self, config: TrainConfig, run_directory: epath.Path, *, fresh: bool):
        self.config, self.folder, self.fresh = config, run_directory, fresh
        self.is_writer = jax.process_index() == 0
        self.events: Any = None
        self.lines: list[str] = []
        self.first: int | None = None
        self.profiling = False
        self.flushed = -inf

    def __enter__(self) -> Self:
        path = self.folder / CONFIG
        if self.is_writer and (not path.exists() or (self.fresh and find_changed_keys(self.config, path.read_text()))):
            write_whole(path, "\n".join(config_lines(self.config)) + "\n")
        if self.is_writer and self.config.enable_tensorboard:
            (self.folder / TENSORBOARD).mkdir(parents=True, exist_ok=True)
            # not SummaryWriter: a full disk ends its thread, and then callers block on its queue
            self.events = event_file_writer.EventsWriter(str(self.folder / TENSORBOARD / "events"))
        return self

    def before_step(self, step: int) -> None:
        """Start the profiler if this is the first step to profile."""
        if self.first is None:
            self.first = step
        if self.config.profiler == "xplane" and step == self.first + self.config.skip_first_n_steps_for_profiler:
            jax.profiler.start_trace(str(self.folder / TENSORBOARD))
            self.profiling = True

    def after_step(self, step: int, record: Mapping[str, Number]) -> None:
        """Write a step's metrics; stop the profiler if this was the last step to profile."""
        assert self.first is not None  # set by `before_step`
        last = self.first + self.config.skip_first_n_steps_for_profiler + self.config.profiler_steps - 1
        if self.profiling and step >= last:
            self._stop_profiler()
        if self.events is not None:
            values = [
                summary_pb2.Summary.Value(tag=TAGS.get(name, f"learning/{name}"), simple_value=float(value))
                for name, value in record.items()
                if name != "step"
            ]
            summary = summary_pb2.Summary(value=values)
            self.events.write_event(event_pb2.Event(wall_time=time.time(), step=step, summary=summary))
            if time.monotonic() > self.flushed + FLUSH_S:
                self.events.flush()
                self.flushed = time.monotonic()
        if self.config.gcs_metrics:
            self.lines.append(json.dumps({key: json_number(value) for key, value in record.items()}))

    def _stop_profiler(self) -> None:
        self.profiling = False
        jax.profiler.stop_trace()
        logging.info("profile: %s", self.folder / TENSORBOARD / "plugins" / "profile")

    def __exit__(self, *_: object) -> None:
        if self.profiling:
            self._stop_profiler()
        if self.events is not None:
            self.events.close()
        if self.is_writer and self.lines:
            steps = [json.loads(line)["step"] for line in (self.lines[0], self.lines[-1])]
            folder = self.folder / METRICS
            folder.mkdir(parents=True, exist_ok=True)
            name = f"metrics_step_{steps[0]:06d}_to_step_{steps[1]:06d}.txt"
            write_whole(folder / name, "".join(f"{line}\n" for line in self.lines))
