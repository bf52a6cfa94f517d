"""Replaces paths in a store's working copy on this machine by addresses in the store's bucket, for pods."""

import re

from tasks.records import RunPlan
from tasks.resolve.trainers.maxtext_metrics import TENSORBOARD
from tasks.store import RunDirectory

OWN_FILES = ("metrics.jsonl", "program.json")  # files that maxview's trainer writes into the run's folder
_NAME = re.compile(r"-{0,2}[A-Za-z_][\w.-]*")


def as_pods_see(plan: RunPlan, directory: RunDirectory, extra_argv: tuple[str, ...]) -> tuple[RunPlan, tuple[str, ...]]:
    """Return the plan and its extra arguments with bucket addresses in place of the working copy's paths."""
    mirror = directory.mirror
    if mirror is None:
        return plan, extra_argv
    here, there = str(mirror.folder), mirror.files.root.rstrip("/")

    def move[T](value: T) -> T | str:
        if isinstance(value, str) and (value == here or value.startswith(f"{here}/")):
            return there + value[len(here) :]
        return value

    def move_word(word: str) -> str:
        key, equals, value = word.partition("=")  # KEY=PATH, as in MaxText's arguments
        return f"{key}={move(value)}" if equals and _NAME.fullmatch(key) else str(move(word))

    config = {key: move(value) for key, value in plan.config.items()}
    words = tuple(move_word(word) for word in plan.argv)
    return plan.model_copy(update={"config": config, "argv": words}), tuple(map(move_word, extra_argv))


def fetch_own_files(plan: RunPlan, directory: RunDirectory) -> None:
    """Download the metrics and other small files of a run from the bucket; checkpoints are read in the bucket."""
    if directory.mirror is not None:
        for name in {*OWN_FILES, plan.files.metrics}:
            directory.mirror.fetch(f"runs/{directory.run_name}/{name}")
        directory.mirror.fetch_folder(f"runs/{directory.run_name}/{TENSORBOARD}")
