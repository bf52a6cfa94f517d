"""Turns a verdict and the command that follows it into the next step: its purpose, question and duration in words.

An arm is one of the two compared versions.
"""

from collections.abc import Sequence
from math import inf

from configs.questions import load_questions
from tasks.diff.judge.metric_rows import NOT_JUDGED
from tasks.diff.phrases.amounts import show_duration
from tasks.metrics.result_metrics import CHANGE, RESTORED
from tasks.metrics.time_metrics import CPU_TIME, PROGRAM_TIME, STEP_TIME
from tasks.records.compared_case import ComparisonRecord, MetricDiff, Verdict
from tasks.records.next_step import NextStep
from tasks.records.run_end import DeathKind

# kind of death -> step to take before the next run
FIXES: dict[DeathKind, str] = {
    "not_implemented": "Implement it, or run this arm without the setting that needs it.",
    "device_oom": "Find the memory that the other arm does not need, or give both arms more remat or devices.",
    "host_oom": "Use a host with more memory.",
    "preempted": "Nothing has to be mended.",
    "nan": "Find the step at which the loss stops being finite.",
    "shape_mismatch": "Mend the shapes or shardings that the error names.",
    "disk_full": "Make room on the disk.",
    "storage": "Check that the storage answers.",
    "configuration": "Correct the setting that the error names.",
    "timeout": "Look for other work on the machine, or raise the time limit.",
    "killed": "Find out who or what killed it.",
    "cut_off": "Find out why its log ends.",
    "other": "Mend the cause that the log names.",
}

# rows of the time of a step, the most precise one first
PER_STEP = (PROGRAM_TIME.name, STEP_TIME.name, CPU_TIME.name)
WORST_FIRST: tuple[Verdict, ...] = ("regressed", "changed", "unknown", "improved", "same")

# kind of finding -> noun of what has to be equal in further runs
TO_EQUALIZE: dict[str, str] = {
    "jax-version": "JAX", "jaxlib-version": "jaxlib", "libtpu-version": "libtpu", "package-version": "packages",
    "xla-flags": "XLA flags", "environment-variable": "environment variables", "device-kind": "devices",
    "device-count": "devices", "mesh": "mesh", "host-process": "host process", "flops": "work per step",
    "tokens": "work per step", "data": "data", "seed": "seed", "config": "settings",
}  # fmt: skip
OTHER_CODE = frozenset({"same-commit", "other-source", "other-trainer"})  # findings about runs of unintended commits

# effect of the command. Those of questions are with them
PURPOSES: dict[str, str] = {
    "resume": "Then this command continues the run that died from its last checkpoint, and reuses the others",
    "again": "This command trains both arms of this case",
    "record again": "Then this command compares both again, and trains nothing",
    "train": "This command trains both arms of this case: do losses, checkpoints and step times differ?",
    "repeat": "This command repeats both arms",
    "until decided": "This command repeats both arms as often as it takes",
    "interleave": "This command lets both programs take turns for longer, and trains nothing",
    "every case": "This command trains both arms of every case: do they differ anywhere else?",
    "other cases": "This command trains both arms of this case",
    "logs": "Then this command reads all logs",
    "stand-in": "Meanwhile this command trains the case here with a small model: do Linen and NNX differ there, too?",
    "look": "This command shows them",
    "read the log": "This command shows why the compiler failed",
    "by hand": "",
}
ASKING: tuple[str, ...] = ("repeat", "until decided", "interleave", "logs")  # these answer a question


def make_step(record: ComparisonRecord, kind: str, argv: Sequence[str] = (), *, runs: int = 0) -> NextStep | None:
    """Return the step with its purpose and its cost; None if there is nothing to do.

    runs: of `repeat`, the number of runs per arm that the command ends with.
    """
    row = None if record.has_died else find_deciding_row(record)
    does = PURPOSES[kind] if kind in PURPOSES else load_questions()[kind].purpose
    if kind == "logs" and _is_certain(row):
        does = "Then this command reads the new logs"
    elif kind in ASKING:
        effect = row.effect_short if row is not None else ""
        asked = f"does {effect} hold?" if effect and record.verdict != "unknown" else "is there a difference?"
        does = f"{does}: {asked}"
    before = _advise(record, kind, row)
    if not argv and not before:
        return None
    return NextStep(kind=kind, argv=tuple(argv), before=before, purpose=does, cost=_tell_cost(record, kind, row, runs))


def has_scale(row: MetricDiff) -> bool:
    """Return whether the row's effect can be drawn beside its threshold."""
    return row.effect is not None and bool(row.threshold) and bool(row.baseline) and row.better != "equal"


def find_deciding_row(record: ComparisonRecord) -> MetricDiff | None:
    """Return the row that decides the verdict: a row of this verdict or, if there is none, any other judged row.

    Rows with an allowed difference do not count; None if no other row is judged. Rows that `has_scale` accepts are
    preferred, of unknown ones the row with the narrowest interval in thresholds; then the step time, then rows that
    MaxView lacks.
    """
    return _decide(record.rows, record.verdict)


def find_time_row(rows: Sequence[MetricDiff], verdict: Verdict) -> MetricDiff | None:
    """Return the row whose number answers how long a step takes; None without one. The other levels are folded.

    It is the row that decides the verdict if that is a time, else the one with the worst word; of equal words the
    program's, then the runs'.
    """
    deciding = _decide(rows, verdict)
    times = [row for row in rows if row.metric in PER_STEP]
    order = (*WORST_FIRST, NOT_JUDGED)
    return min(
        times,
        key=lambda row: (row is not deciding, order.index(row.verdict), PER_STEP.index(row.metric)),
        default=None,
    )


def _decide(rows: Sequence[MetricDiff], verdict: Verdict) -> MetricDiff | None:
    judged = [row for row in rows if row.verdict != NOT_JUDGED and not row.allowed]
    same_word = [row for row in judged if row.verdict == verdict] or judged

    def rank(row: MetricDiff) -> tuple[bool, bool, float, bool, bool]:
        width = _count_thresholds(row) if verdict == "unknown" else 0.0
        is_uncovered = row.metric == CHANGE.name and row.verdict == "unknown"
        is_proved = row.metric == RESTORED.name and row.verdict in ("regressed", "changed")
        return (
            not (is_uncovered or is_proved),
            not has_scale(row),
            width,
            row.metric != STEP_TIME.name,
            row.group == "maxview",
        )

    return min(same_word, key=rank, default=None)


def _count_thresholds(row: MetricDiff) -> float:
    """Return the width of the effect's interval in thresholds; infinity if it has no scale or no interval."""
    if not has_scale(row) or row.effect_low is None or row.effect_high is None:
        return inf
    assert row.threshold is not None
    assert row.baseline is not None
    return abs(row.baseline) * (row.effect_high - row.effect_low) / row.threshold


def _tell_cost(record: ComparisonRecord, kind: str, row: MetricDiff | None, runs: int) -> str:
    """Return the duration of the command in words, estimated from this comparison's runs; empty if unknown."""
    seconds = sum(account.total_s for account in record.times)
    if kind == "until decided" and row is not None and row.cost_text:
        return f"takes {row.cost_text} in all"
    done = len(record.baseline.runs)
    per_command = {"resume": 1.0, "again": 1.0, "until decided": 1.0, "every case": 1.0, "repeat": runs / done - 1}
    if not seconds or kind not in per_command:
        return ""
    unit = {"until decided": " a round", "every case": " per case"}.get(kind, "")
    return f"takes about {show_duration(seconds * per_command[kind])}{unit}"


def _advise(record: ComparisonRecord, kind: str, row: MetricDiff | None) -> str:
    """Return the step to take by hand, before the next command if there is one; empty if no such step is needed."""
    dead = next((arm for arm in (record.candidate, record.baseline) if arm.has_died), None)
    unseen = record.coverage.unseen if record.coverage is not None and record.verdict == "unknown" else ()
    if unseen and kind in ("by hand", "train", "other cases"):
        place = f"{unseen[0].file}:{unseen[0].first}"
        known = next((f"--case {one.case} runs {one.file}:{one.first}." for one in unseen if one.case), "")
        return known or f"Choose a case or a setting that runs {place}."
    of_logs = kind in ("logs", "stand-in", "by hand")
    if dead is not None:
        fix = FIXES[dead.cause_of_death.kind] if dead.cause_of_death else "Find out why it ended."
        return f"{fix} With this fix, run it again and replace its log." if of_logs else fix
    is_blocked = any(finding.effect == "blocks" for finding in record.findings)
    if kind == "look":
        return "If this is not intended, its cause is among your uncommitted changes."
    if (kind == "logs" and _is_certain(row)) or (kind == "by hand" and record.verdict in ("regressed", "changed")):
        left, right = map(record.commit_in_clone, (record.baseline, record.candidate))
        edited = record.code.get(record.candidate.name)
        between = f"the commits between the two: git log {left}...{right}" if left and right and left != right else ""
        if edited is not None and edited.changed:
            place = f"the uncommitted changes{f', and {between}' if between else '.'}"
        else:
            unequal = _name_unequal(record)
            known = f"the differences in {unequal}{', and ' if between else '.'}" if unequal else ""
            place = f"{known}{between}" or "the differences that are listed here."
        return f"If this is not intended, find its cause among {place}"
    if is_blocked and of_logs:
        unequal = _name_unequal(record)
        needed = ["each from its own commit"] if any(one.kind in OTHER_CODE for one in record.findings) else []
        needed += [f"with equal {unequal}"] if unequal else []
        how = ", ".join(needed) or "so that only the change differs between them"
        return f"Run both again, {how}, and replace these logs with the new ones."
    if kind in ("logs", "stand-in"):
        return "Run both again, and put the new logs beside the old ones, under names that begin like theirs."
    return ""


def _name_unequal(record: ComparisonRecord) -> str:
    """Return what differs undeclared between the arms, such as `JAX, libtpu and mesh`; empty without such findings."""
    kinds = [finding.kind for finding in record.findings if finding.effect in ("blocks", "qualifies")]
    *first, last = dict.fromkeys(TO_EQUALIZE[kind] for kind in kinds if kind in TO_EQUALIZE) or [""]
    return f"{', '.join(first)} and {last}" if first else last


def _is_certain(row: MetricDiff | None) -> bool:
    """Return whether the row differs in values that were read, not estimated from noisy times."""
    return row is not None and row.verdict in ("regressed", "changed") and row.effect_low is None
