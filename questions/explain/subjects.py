"""Finds the two arms to explain: the arms of a comparison with a difference, or the arms named by `maxview explain`.

An arm is one of the two compared versions of a trainer. An explanation runs both arms once more to find the cause.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from questions.explain.explain_arms import Both, explain_plans, say_cost_of_explanation
from tasks.experiments.recordings import FOLDER as EXPERIMENTS
from tasks.experiments.recordings import read_plans
from tasks.experiments.runnable_arms import has_other_cost, plans_of
from tasks.metrics.table import METRICS
from tasks.records.compared_case import ComparisonRecord
from tasks.records.explanation import Explanation
from tasks.records.plan import RunPlan
from tasks.records.run import RunRecord
from tasks.records.run_facts import seconds_between
from tasks.store.directories import ComparisonDirectory, RunDirectory
from tasks.store.store import Store, open_store

FOLDER = "explained"  # folder of the observations, in the comparison's folder or in the second run's
# Metrics whose differences the programs, or the programs' times on the device, can explain.
_EXPLAINED = frozenset(metric.name for metric in METRICS if metric.explained)
_DIFFERS = frozenset({"changed", "regressed", "improved"})
PAGE, RECORD = "index.html", "comparison.json"  # files in a comparison's folder
NOT_OURS = "only runs that maxview trained on this machine can be observed: a log alone holds no program"


def name_explainable_differences(record: ComparisonRecord) -> str:
    """Return the names of the differences that can be explained (rows' titles, the program) as text; empty if none.

    Also empty if an arm died, if the arms should be equal, or if only programs were compared.
    """
    if record.has_died or record.aa or record.programs is not None:
        return ""
    rows = [row.title for row in record.rows if row.metric in _EXPLAINED and row.verdict in _DIFFERS]
    programs = ["the program" for floor in record.floors if floor.name == "same program" and floor.holds is False]
    if record.function is not None and record.function.answer == "same":
        programs = []  # the programs only round differently
    return ", ".join([*rows, *programs])


def announce(plans: Both[RunPlan], runs: Sequence[RunRecord], why: str) -> str:
    """Return the message before an explanation begins: the explanation's reason and cost."""
    took = [seconds_between(run.reading.started, run.reading.ended) for run in runs]
    longest = max((one for one in took if one is not None), default=None)
    return f"differs in {why}: {say_cost_of_explanation(plans, longest)}"


def explain_comparison(record: ComparisonRecord, plans: Both[RunPlan], store: Store) -> Explanation:
    """Return the explanation of a comparison of two plans' arms: the stored one, else a new one.

    For a new one, both arms run once more. One that was made before the function was compared is made again, and one
    of other commits with the same code, because it names their lines.
    """
    directory = store.comparison(record.comparison, record.case, record.id)
    before = directory.read_comparison()
    if before is not None and before.explanation is not None and _asked_of(before) == _asked_of(record):
        return before.explanation
    names = (record.baseline.name, record.candidate.name)
    stands_for = record.function.stands_for if record.function and plans[0].target != record.target else ""
    folder = Path(directory.path) / FOLDER
    costs = record.trained or "time" in record.asked or has_other_cost(record)
    return explain_plans(plans, names, folder, stands_for=stands_for, function=record.function, costs=costs)


def _asked_of(record: ComparisonRecord) -> tuple[str, str | None, str | None]:
    answer = record.function.answer if record.function is not None else ""
    return answer, record.baseline.commit, record.candidate.commit


class Subject(NamedTuple):
    """Two arms to explain. record and store: the arms' comparison and its store; None for two single runs."""

    plans: Both[RunPlan]
    names: Both[str]
    folder: Path  # for the observations
    record: ComparisonRecord | None = None
    store: Store | None = None


def find_subject(words: Sequence[str], store: str) -> Subject:
    """Return the arms for command-line words: a page, a comparison's folder, record or name, or two run folders.

    store: address of the store with named comparisons. Raises ValueError if the words name no such arms, or if maxview
    did not run both arms on this machine.
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
    plans = plans_of(runs) if record.trained else read_plans(directory.path / EXPERIMENTS)
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
