"""Finds a case of a trainer whose earlier run executed a function: what to run for lines that did not run."""

import json

from tasks.observe.ran_lines import PATTERN
from tasks.records import ChangeCoverage, RunPlan
from tasks.records.run import START_FOLDER
from tasks.store import Store

MOST = 60  # runs that are read, the newest first


def name_cases(coverage: ChangeCoverage | None, plan: RunPlan, store: Store) -> ChangeCoverage | None:
    """Return the coverage with the case that ran each unseen function lately, where a run in the store tells."""
    if coverage is None or not coverage.unseen:
        return coverage
    started = _read_started(plan.trainer, store)
    unseen = tuple(
        one.model_copy(update={"case": next((case for case, ran in started if (one.file, one.function) in ran), "")})
        for one in coverage.unseen
    )
    return coverage.model_copy(update={"unseen": unseen})


def _read_started(trainer: str, store: Store) -> list[tuple[str, set[tuple[str, str]]]]:
    """Return (case, functions that started) of the newest runs of a trainer."""
    files = sorted(store.path.glob(f"runs/*/{START_FOLDER}/{PATTERN}"), key=lambda path: -path.stat().st_mtime)
    found = []
    for path in files[:MOST]:
        try:
            plan = json.loads((path.parent.parent / "plan.json").read_text(encoding="utf-8"))
            functions = json.loads(path.read_text(encoding="utf-8"))["functions"]
        except (OSError, ValueError, KeyError):
            continue
        if plan.get("trainer") == trainer:
            names = {(file, name) for file, started in functions.items() for name, _ in started}
            found.append((str(plan.get("case")), names))
    return found
