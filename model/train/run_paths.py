"""Turns a config into the places a run writes to, and refuses those that it cannot write to."""

import tempfile
from pathlib import Path

from etils import epath

from configs.data_checks import REMOTE
from configs.load import ConfigError
from configs.schema import TrainConfig

METRICS = "metrics.jsonl"


def find_run_directory(config: TrainConfig) -> epath.Path:
    """Where the run lives. Raises ConfigError if the config does not say."""
    empty = [key for key in ("run_name", "base_output_directory") if not getattr(config, key)]
    if empty:
        raise ConfigError([f"{key} is empty: set it, for example {key}=…" for key in empty])
    base = config.base_output_directory
    # Orbax takes absolute paths only
    return epath.Path(base if "://" in base else Path(base).absolute()) / config.run_name


def find_metrics_path(config: TrainConfig, run_directory: epath.Path) -> Path:
    """The local file that the metrics go to. For a run in a bucket, whose objects cannot be appended to, it is one of
    this machine, of which the bucket gets copies (`find_metrics_copy`)."""
    if config.metrics_file:
        return Path(config.metrics_file)
    if "://" in str(run_directory):
        return Path(tempfile.gettempdir()) / "maxview" / config.run_name / METRICS
    return Path(run_directory / METRICS)


def find_metrics_copy(config: TrainConfig, run_directory: epath.Path) -> epath.Path | None:
    """Where the metrics are copied to; None where they are written to the run's folder themselves."""
    return run_directory / METRICS if "://" in str(run_directory) and not config.metrics_file else None


def make_run_directory(run_directory: epath.Path) -> None:
    """The run's folder. Raises ConfigError if it cannot be made."""
    try:
        run_directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"base_output_directory: {run_directory} cannot be made: {error.strerror or error}"
        raise ConfigError([f"{message} (choose a folder that can be written)"]) from error


def find_objects(pattern: str) -> list[str]:
    """The objects of a bucket that a pattern fits. Raises OSError."""
    bucket, _, names = pattern.removeprefix(REMOTE).partition("/")
    return sorted(str(path) for path in epath.Path(f"{REMOTE}{bucket}").glob(names))


def write_whole(path: epath.Path, text: str) -> None:
    """Write a file whole or not at all: a full disk leaves what was there."""
    unfinished = path.parent / f"{path.name}.tmp"
    unfinished.write_text(text)
    unfinished.replace(path)
