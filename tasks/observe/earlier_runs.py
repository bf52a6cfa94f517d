"""Finds a case of a trainer whose earlier run executed a function: what to run for lines that did not run."""

import json

from tasks.observe.ran_lines import PATTERN, read_ran_lines
from tasks.records.change import ChangeCoverage, RanLines, UnseenLines
from tasks.records.plan import RunPlan
from tasks.records.run import START_FOLDER
from tasks.store.store import Store

MOST = 60  # runs that are read, the newest first


def name_cases(coverage: ChangeCoverage | None, plan: RunPlan, store: Store) -> ChangeCoverage | None:
    """Return the coverage with the case that ran each unseen function lately, where a run in the store tells."""
    if coverage is None or not coverage.unseen:
        return coverage
    started = _read_started(plan.trainer, store)
    unseen = tuple(
        one.replace(case=next((case for case, ran in started if _has_run(one, ran)), "")) for one in coverage.unseen
    )
    return coverage.replace(unseen=unseen)


def _has_run(one: UnseenLines, ran: RanLines) -> bool:
    """Return whether an earlier run executed the lines, at their place in their function: its commit may be another."""
    begins = [line for name, line in ran.functions.get(one.file, ()) if name == one.function]
    if one.offset is None:
        return bool(begins)
    return any(begin + one.offset in ran.lines.get(one.file, ()) for begin in begins)


def _read_started(trainer: str, store: Store) -> list[tuple[str, RanLines]]:
    """Return (case, lines that ran) of the newest runs of a trainer."""
    files = sorted(store.path.glob(f"runs/*/{START_FOLDER}/{PATTERN}"), key=lambda path: -path.stat().st_mtime)
    found = []
    for path in files[:MOST]:
        try:
            plan = json.loads((path.parent.parent / "plan.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if plan.get("trainer") == trainer:
            found.append((str(plan.get("case")), read_ran_lines([path.parent])))
    return found
