"""Finds arms that ran other code than planned or declared; reports whether they started from the same state.

An arm is one side of a comparison of runs.
"""

from tasks.diff.examine.arms import Arms
from tasks.diff.examine.observed import Observations, compare_values, contrast, notice
from tasks.diff.examine.setting_differences import config_of
from tasks.diff.examine.undeclared_differences import software_differs, trainers_differ
from tasks.metrics.merged_steps import place_of_row
from tasks.resolve.trainers import trainer_class
from tasks.resolve.trainers.trainer import SOURCE

SEVERAL = 3  # fewest moved messages that prove other code; a few may have several call sites or another Python
SHOWN = 3  # limit of arguments that a message names
IMPLEMENTATIONS = frozenset({"linen", "nnx"})  # names of arms that run the two implementations


def find_other_code(arms: Arms) -> Observations:
    """Yield findings if different code wrote the logs: other source lines of messages, trainers or formats."""
    places = place_of_row(arms[0].reading.steps), place_of_row(arms[1].reading.steps)
    commits = {arm.first.commit for arm in arms}
    if _claim_one_commit(arms):
        moved = _moved_messages(arms)
        shown = ", ".join(f"{left} and {right}" for left, right in moved)
        versions = [arm.reading.environment.jax for arm in arms]
        known = None not in versions and versions[0] != versions[1]
        software = f" on different JAX ({versions[0]} and {versions[1]})" if known else ""
        message = (
            f"both logs claim commit {commits.pop()}, but ran different code{software}: {len(moved)} of the same "
            f"messages come from other source lines ({shown})"
        )
        yield contrast(arms, "other-source", message, moved[0], places)
    elif (len(commits) == 1 or None in commits) and not _code_is_meant_to_differ(arms):
        files = arms[0].reading.source_file, arms[1].reading.source_file
        message = "step lines were printed by different source lines ({} and {}): not the same code"
        yield from compare_values(arms, "source-lines", files, message, places)
    if trainers_differ(arms):
        names = [trainer_class(plan.trainer).title for arm in arms if (plan := arm.first.plan)]
        message = "two trainers ({} and {}): each draws its own weights and its own batch, and counts its own memory"
        yield from compare_values(arms, "log-format", (names[0], names[1]), message, places)
    elif all(place is not None for place in places):
        formats = arms[0].reading.format, arms[1].reading.format
        yield from compare_values(arms, "log-format", formats, "the logs are of different trainers ({} and {})", places)


def _claim_one_commit(arms: Arms) -> bool:
    """Return whether both logs name the same commit, although their messages show that different code ran."""
    commits = {arm.first.commit for arm in arms}
    moved = len(_moved_messages(arms)) >= SEVERAL
    return moved and len(commits) == 1 and None not in commits and not _code_is_meant_to_differ(arms)


def _moved_messages(arms: Arms) -> list[tuple[str, str]]:
    """Return both source lines (`file.py:12`) of each message that the arms print from different lines of one file."""
    left, right = ({"step": arm.reading.source_file or ""} | arm.reading.printers for arm in arms)
    pairs = [(left[name], right[name]) for name in left if name in right]
    return [(one, two) for one, two in pairs if one != two and one.partition(":")[0] == two.partition(":")[0]]


def _code_is_meant_to_differ(arms: Arms) -> bool:
    """Return whether the arms are declared to run two trainers, or two versions of one that reports no commit."""
    plans = [arm.first.plan for arm in arms]
    versions = {plan.versions.get(SOURCE) for plan in plans if plan and not trainer_class(plan.trainer).reports}
    refs = {plan.ref for plan in plans if plan}
    return trainers_differ(arms) or (len(versions) > 1 and (len(refs) > 1 or software_differs(arms)))


def find_commits(arms: Arms, declared: frozenset[str], *, aa: bool) -> Observations:
    """Yield findings for a commit compared with itself, undeclared differences of commits, and uncommitted changes.

    `declared`: the config keys that are declared to differ.
    """
    commits = arms[0].first.commit, arms[1].first.commit
    plans = [arm.first.plan for arm in arms]
    sources = [plan.versions.get(SOURCE) if plan else None for plan in plans]
    differ = _compares_implementations(arms) or _differ_as_declared(arms, declared)
    meant = differ or aa or software_differs(arms) or _claim_one_commit(arms)
    if not meant and all(commits) and commits[0] == commits[1]:
        message = f"both sides are commit {commits[0]}: this compares a commit with itself under two names"
        yield contrast(arms, "same-commit", message, commits)
    same_source = sources[0] is not None and sources[0] == sources[1]
    if (differ or aa) and all(commits) and commits[0] != commits[1] and not same_source:
        message = "the arms come from different commits, so they may differ in more than was declared"
        yield contrast(arms, "different-commits", message, commits)
    dirty = [arm for arm, plan in zip(arms, plans, strict=True) if plan is not None and plan.dirty]
    if dirty:
        message = f"{' and '.join(arm.label for arm in dirty)} ran with uncommitted changes"
        yield notice("dirty-checkout", message, *((arm, "dirty", None) for arm in dirty))


def _compares_implementations(arms: Arms) -> bool:
    """Return whether the arms are named for the two implementations (Linen and NNX), and not for two commits."""
    return {arm.name.lower() for arm in arms} == IMPLEMENTATIONS


def _differ_as_declared(arms: Arms, declared: frozenset[str]) -> bool:
    left, right = (config_of(arm.first) for arm in arms)
    return any(key in left and key in right and left[key] != right[key] for key in declared)


def draws_differ(arms: Arms) -> bool:
    """Return whether the arms are known to draw different weights or data.

    True for different trainers or seeds, and for MaxText's two implementations, which draw different weights from the
    same seed. False in all cases if the arms start from the same state and no run uses dropout.
    """
    left, right = (config_of(arm.first) for arm in arms)
    seeds = any("seed" in key and left[key] != right[key] for key in left.keys() & right.keys())
    maxtext = {arm.reading.format for arm in arms} == {"maxtext"} and not any(arm.first.program for arm in arms)
    differ = trainers_differ(arms) or seeds or (maxtext and _compares_implementations(arms))
    configs = [run.plan.config for arm in arms for run in arm.runs if run.plan is not None]
    dropout = any(config.get("enable_dropout") and config.get("dropout_rate") for config in configs)
    shared = all(run.start is not None and run.start.is_shared for run in arms[1].runs)
    return differ and (dropout or not shared)


def find_shared_start(arms: Arms) -> Observations:
    """Yield a finding with the outcome of starting the candidate from the baseline's state, if that was requested."""
    reports = [run.start for run in arms[1].runs if run.start is not None]
    if not reports:
        return
    failed = next((report for report in reports if not report.is_shared), None)
    if failed is not None:
        own = ", ".join(failed.own_values[:SHOWN])
        none = "no argument of the candidate's step was replaced by the baseline's"
        why = failed.reason or (f"the candidate's {own} could not be replaced" if own else none)
        judged = "; their losses are compared as those of other draws" if draws_differ(arms) else ""
        message = f"the arms do not share their start: {why}{judged}"
    else:
        taken, stay = len(reports[0].replaced), len(reports[0].kept)
        kept = f", {stay} were kept" if stay else ""
        replaced = f"{taken} arguments of the candidate's step were replaced by the baseline's{kept}"
        dropout = "; dropout drops different units in each arm" if draws_differ(arms) else ""
        end = next((one.own_batches_from for one in reports if one.own_batches_from is not None), None)
        later = "" if end is None else f"; from step {end} on, each arm trained on its own batches (too large to store)"
        message = f"both arms start from the same state: {replaced}{later}{dropout}"
    yield notice("start", message, (arms[1], failed.reason if failed else "shared", None))


def find_other_trainers(arms: Arms) -> Observations:
    """Yield findings for runs that report another commit or trainer source than planned, or a changed checkout."""
    for arm in arms:
        for run in arm.runs:
            said = run.program.get("trainer")
            if run.plan is None or not said:
                continue
            pairs = (
                ("commit", run.plan.commit, said.get("commit")),
                (SOURCE, run.plan.versions.get(SOURCE), str(said.get("source") or "")[:12]),
            )
            wrong = [
                (name, planned, reported)
                for name, planned, reported in pairs
                if planned and reported and planned != reported
            ]
            if run.plan.checkout is not None and said.get("dirty"):
                wrong.append(("checkout", "clean", "changed"))
            for name, planned, reported in wrong:
                message = f"{run.plan.run_name} ran another trainer than was planned: {name} {reported}, not {planned}"
                yield notice("other-trainer", message, (arm, reported, None))
