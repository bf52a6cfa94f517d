"""Finds and checks the paths that a run reads and writes, before it begins."""

import tempfile
from pathlib import Path

from etils import epath

from configs.data_checks import REMOTE, Find, find_data_problems
from configs.load import ConfigError
from configs.schema import TrainConfig

METRICS = "metrics.jsonl"


def find_run_directory(config: TrainConfig) -> epath.Path:
    """Return the run's folder. Raises ConfigError if the config does not name it."""
    empty = [key for key in ("run_name", "base_output_directory") if not getattr(config, key)]
    if empty:
        raise ConfigError([f"{key} is empty: set it, for example {key}=…" for key in empty])
    base = config.base_output_directory
    # Orbax takes absolute paths only
    return epath.Path(base if "://" in base else Path(base).absolute()) / config.run_name


def find_metrics_path(config: TrainConfig, run_directory: epath.Path) -> Path:
    """Return the local path of the metrics file.

    A bucket's objects cannot be appended to. A run in a bucket writes a local file and copies it (`find_metrics_copy`).
    """
    if config.metrics_file:
        return Path(config.metrics_file)
    if "://" in str(run_directory):
        return Path(tempfile.gettempdir()) / "maxview" / config.run_name / METRICS
    return Path(run_directory / METRICS)


def find_metrics_copy(config: TrainConfig, run_directory: epath.Path) -> epath.Path | None:
    """Return the path in a bucket that the metrics file is copied to; None if it is not copied."""
    return run_directory / METRICS if "://" in str(run_directory) and not config.metrics_file else None


def make_run_directory(run_directory: epath.Path) -> None:
    """Create the run's folder. Raises ConfigError on failure."""
    try:
        run_directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"base_output_directory: {run_directory} cannot be created: {error.strerror or error}"
        raise ConfigError([f"{message} (choose a writable folder)"]) from error


def find_objects(pattern: str) -> list[str]:
    """Return the objects of a bucket that match a pattern. Raises OSError."""
    bucket, _, names = pattern.removeprefix(REMOTE).partition("/")
    return sorted(str(path) for path in epath.Path(f"{REMOTE}{bucket}").glob(names))


def check_data(config: TrainConfig, find: Find = find_objects) -> None:
    """Raise ConfigError for texts that cannot be read. Contents in a bucket are only checked if `find` copies them."""
    problems = list(find_data_problems(config, find))
    if problems:
        raise ConfigError(problems)


def write_whole(path: epath.Path, text: str) -> None:
    """Write a file atomically: if the disk is full, the old content remains."""
    unfinished = path.parent / f"{path.name}.tmp"
    unfinished.write_text(text)
    unfinished.replace(path)
