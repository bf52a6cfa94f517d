"""Finds the two arms that the arguments of `maxview explain` name, and their comparison if they have one."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tasks.causes.explain import Both
from tasks.causes.occasion import FOLDER, plans_of
from tasks.records import ComparisonRecord, RunPlan, RunRecord
from tasks.store import Store, open_store
from tasks.store.directories import ComparisonDirectory, RunDirectory

PAGE, RECORD = "index.html", "comparison.json"
NOT_OURS = "only runs that maxview trained on this machine can be observed: a log alone holds no program"


class Subject(NamedTuple):
    """Two arms to explain. record and store: their comparison and its store; None for two single runs."""

    plans: Both[RunPlan]
    names: Both[str]
    folder: Path  # for the observations
    record: ComparisonRecord | None = None
    store: Store | None = None


def find_subject(words: Sequence[str], store: str) -> Subject:
    """Return the arms for command-line words: a page, a comparison's folder or name, or two run folders.

    store: address of the store with named comparisons. Raises ValueError, with an example to type.
    """
    if len(words) == 2:
        return _two_runs(words)
    if len(words) != 1:
        raise ValueError(
            "name one comparison, one page, or two runs: maxview explain maxview-out/runs/A maxview-out/runs/B"
        )
    place = Path(words[0])
    if place.name in (PAGE, RECORD):
        place = place.parent
    if (place / RECORD).is_file():
        directory, home = ComparisonDirectory(place.absolute()), open_store(place.absolute().parents[3])
    else:
        home = open_store(store, reading=True)
        named = [one for one in home.comparisons() if one.path.parents[1].name == words[0]]
        if not named:
            known = sorted({one.path.parents[1].name for one in home.comparisons()})
            there = f"there are: {', '.join(known)}" if known else "there is none"
            raise ValueError(f"no comparison '{words[0]:.80}' in {store} ({there}), and no page: name it, or --store")
        directory = max(named, key=lambda one: one.comparison.stat().st_mtime)
    record = directory.read_comparison()
    if record is None:
        raise ValueError(f"{directory.path}: holds no comparison")
    runs = [
        run
        for arm in (record.baseline, record.candidate)
        for log in arm.logs[:1]
        if (run := home.run_of_log(log).read_record()) is not None
    ]
    plans = plans_of(runs)
    if plans is None:
        raise ValueError(NOT_OURS)
    return Subject(plans, (record.baseline.name, record.candidate.name), directory.path / FOLDER, record, home)


def _two_runs(words: Sequence[str]) -> Subject:
    runs: list[RunRecord] = []
    for word in words:
        run = RunDirectory(Path(word).absolute()).read_record() if Path(word).is_dir() else None
        if run is None:
            raise ValueError(f"{word}: is no run's folder with a record: maxview-out/runs/… are")
        runs.append(run)
    plans = [run.plan for run in runs if run.plan is not None and run.plan.backend == "local"]
    if len(plans) < 2:
        raise ValueError(NOT_OURS)
    names = [plan.arm for plan in plans]
    if names[0] == names[1]:
        names = [run.label for run in runs] if runs[0].label != runs[1].label else [Path(word).name for word in words]
    return Subject((plans[0], plans[1]), (names[0], names[1]), Path(words[1]).absolute() / FOLDER)
