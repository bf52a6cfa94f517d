"""Writes each step's metrics as one line of JSON in full precision, flushed before the next step starts."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Self

import jax
import numpy as np
from etils import epath

from configs.load import ConfigError

type Number = int | float | np.float32


def to_number(value: np.ndarray) -> Number:
    """Return a metric from the device as int, or as float32 with all its bits."""
    return int(value) if np.issubdtype(value.dtype, np.integer) else np.float32(value)


def json_number(value: Number) -> int | float | str:
    """Return a number for JSON: float32 as the shortest decimal that gives the same bits, "nan", "inf" and "-inf"."""
    if isinstance(value, int):
        return value
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float(str(value)) if isinstance(value, np.float32) else float(value)


class MetricsFile:
    """The metrics of a run as lines of JSON. A resumed run appends; the last line of a repeated step counts.

    Only the first of several processes writes, because all have the same numbers. copy: the run's object in a bucket.
    """

    def __init__(self, path: Path, copy: epath.Path | None = None):
        self.path = path
        first = jax.process_index() == 0
        self.copy = copy if first else None
        try:
            if first:
                path.parent.mkdir(parents=True, exist_ok=True)
                if self.copy is not None:  # the local file may be missing, or may be another run's
                    path.write_bytes(self.copy.read_bytes() if self.copy.exists() else b"")
                drop_torn_line(path)
            # of several processes, only the first has the file, and one process cannot resume earlier than the others
            self.last_step = read_last_step(path) if jax.process_count() == 1 else None
            self.file: IO[str] = (path if first else Path(os.devnull)).open("a", encoding="utf-8")
        except OSError as error:
            message = f"metrics_file: {path} cannot be written: {error.strerror} (set metrics_file to a local file)"
            raise ConfigError([message]) from error

    def write(self, record: Mapping[str, Number]) -> None:
        """Append the record of one step."""
        self.file.write(json.dumps({key: json_number(value) for key, value in record.items()}) + "\n")
        self.file.flush()

    def publish(self) -> None:
        """Update the copy in the bucket, after each checkpoint and at the end, so that both resume at the same step."""
        if self.copy is not None:
            self.copy.write_bytes(self.path.read_bytes())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.publish()


def drop_torn_line(path: Path) -> None:
    """Remove an incomplete last line, which a killed run leaves."""
    if not path.exists():
        return
    text = path.read_bytes()
    if text and not text.endswith(b"\n"):
        os.truncate(path, text.rfind(b"\n") + 1)


def read_last_step(path: Path) -> int | None:
    """Return the step of the last line; None if the file is missing or empty."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    return int(json.loads(lines[-1])["step"]) if lines else None


def read_losses(path: Path | epath.Path) -> dict[int, np.float32]:
    """Return step → loss; of a repeated step, the last one."""
    losses = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        losses[int(record["step"])] = np.float32(record["loss"])
    return losses
