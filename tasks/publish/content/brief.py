"""Turns a comparison into its brief: the verdict, what shows it, the rows that decide, the reason and the next step.

Page, terminal, pull request and Prefect draw this one model, and choose only how much of it. An arm is one of the two
compared versions.
"""

import re
from collections.abc import Iterator, Sequence
from math import isfinite
from pathlib import Path

import numpy as np

from configs.frozen import Frozen
from tasks.diff.judge.host_rows import HOST_LOOPS, LOOPS
from tasks.diff.judge.ingest_command import UNNAMED
from tasks.diff.judge.metric_rows import NOT_JUDGED
from tasks.diff.judge.next_step import PER_STEP, find_deciding_row, find_time_row
from tasks.diff.judge.step_modes import find_border, name_share
from tasks.diff.phrases.amounts import ONE_PROGRAM, ONE_RUN, show_duration
from tasks.diff.phrases.headlines import tell_dead, tell_result
from tasks.metrics.maxview_metrics import FINAL_LOSS
from tasks.metrics.program_metrics import COMPILED_PROGRAMS, MEMORY
from tasks.metrics.result_metrics import CHECKPOINTS, EVALUATION, FUNCTION, LATER_STEPS, LOSS, RESTORED
from tasks.metrics.table import METRICS
from tasks.metrics.time_metrics import CPU_TIME, PROGRAM_TIME, STEP_TIME
from tasks.publish.content.edits import list_edits, shorten_edit
from tasks.publish.content.explanation_sections import headline_of
from tasks.publish.content.row_values import show_percent, show_seconds_of, show_values
from tasks.publish.content.verdict_words import (
    HOLDS,
    WORST_FIRST,
    Outcome,
    first_clauses,
    first_reasons,
    name_side,
    outcome_of,
    sides_of,
    tell_again,
    tell_outcome,
    threshold_text,
    without_sides,
)
from tasks.records.compared_case import ArmSummary, ComparisonRecord, MetricDiff, Verdict
from tasks.records.explanation import Explanation, TimeDifference
from tasks.records.function import show_relative
from tasks.records.next_step import NextStep
from tasks.records.text import counted, shorten, show_share, tells_nothing, visible

HOST = "the host between the steps"  # a part of the time in an explanation
MAX_TITLE_LENGTH = 120  # characters: two lines on a screen
MAX_REF_LENGTH = 24  # characters of an arm in the title
MAX_ROWS, MAX_TICKS = 4, 4
NOTHING_LEFT = "nothing to do"
# the block that ends logs of MaxText; its text waits in a buffer, and stands before the cause of a death at the end
_FLOPS = re.compile(r"Per train step:| Total TFLOPs: | split as [\d.]+%")
LAST_LINES, LAST_BYTES = 3, 4_096  # of a dead run's log
LEAST_STEPS = 12  # fewer steps of an arm show no levels
MAX_APART = 0.25  # relative distance of a value to the nearest drawn level
FRAME = re.compile(r'File "([^"]+)", line (\d+)(?:, in (\S+))?')  # a stack frame in a traceback
# rows that tell what is the same, if there is no proof by floors
TELLING = ("loss_per_step", *PER_STEP, "function", "parameters", "checkpoints")
# rows whose verdict comes from both steps in float64, if these could be compared
DECIDED_BY_FUNCTION = frozenset({"loss_per_step", "function", "values_per_step", "evaluations", "final_loss"})
OF_KIND = {PROGRAM_TIME.name: " of the program", STEP_TIME.name: " of the runs", CPU_TIME.name: " in processor time"}
# the time of a step as users know it, whichever level of the steps decides
SHORT_TITLES = {
    (STEP_TIME.name, STEP_TIME.title): "Step time of runs",
    (STEP_TIME.name, STEP_TIME.middle): "Step time of runs, typical",
}
# metric -> the curve that shows it
CURVES = {metric.name: metric.curve for metric in METRICS if metric.curve} | {FINAL_LOSS.name: LOSS.curve}


class Level(Frozen):
    """Steps of one arm that take about the same time."""

    seconds: float
    share: float  # of the arm's steps, 0 to 1
    steps: str  # "all steps", "every third step"


class Strip(Frozen):
    """The levels of an arm's steps, the quickest first."""

    side: str
    name: str
    levels: tuple[Level, ...]


class Tick(Frozen):
    """Something that both arms have in common, or not."""

    word: Verdict  # decides the sign
    text: str


class BriefRow(Frozen):
    """A row of the table in three cells and a verdict."""

    metric: str
    title: str
    values: str  # "80.0 → 93.5 ms"
    percent: str  # "+16.9 %"; empty if there is none
    verdict: Verdict


class Death(Frozen):
    """The end of a run that died."""

    side: str
    cause: str  # in words; empty if the sentence of the brief has it
    message: str  # of the error
    place: str  # line and log
    lines: tuple[str, ...]  # the last lines of its log, if it is at hand
    again: str  # whether a repeat would help


class Brief(Frozen):
    """A comparison in about twenty lines."""

    outcome: Outcome
    title: str
    word: str  # the outcome, or what was asked: "same function and time"
    sentence: str
    not_tried: str  # what the comparison leaves out, as a sentence; may be empty
    took: str  # how long the comparison took; empty: unknown
    evaluated: str  # which functions of the loops float64 evaluated, as a sentence; empty: the steps alone
    gate: str  # whether it passes the command's gate, and why; empty without a gate
    sure: str  # how certain the verdict is; may be empty
    strips: tuple[Strip, ...]
    ticks: tuple[Tick, ...]
    deaths: tuple[Death, ...]
    rows: tuple[BriefRow, ...]
    more: str  # what the table has beside these rows; empty if nothing
    why: str
    edit: tuple[str, ...]  # the first changed lines of a working tree
    next_step: NextStep | None
    done: str  # that there is nothing to do, as a clause; empty with a next step, or while a question is open
    row: MetricDiff | None  # the row that decides the verdict; None if an arm died or no row decides
    curve: str  # id of the figure that is drawn first; empty without `row`


def make_brief(record: ComparisonRecord) -> Brief:
    """Return the brief of a comparison."""
    record = without_sides(record)
    row = None if record.has_died else find_deciding_row(record)
    is_blocked = any(finding.effect == "blocks" for finding in record.findings)
    is_timed = row is not None and row.metric == STEP_TIME.name and not is_blocked
    strips = tuple(_draw_strips(record)) if is_timed and record.verdict != "same" else ()
    strips = strips if row is not None and _agree(strips, row) else ()
    rows, more = _choose_rows(record, row)
    sentence, why = tell_difference(record, row), tell_why(record, row)
    targets = [] if record.target == UNNAMED else [record.target]
    return Brief(
        outcome=outcome_of(record),
        title=" · ".join(map(visible, (record.case, _name_arms(record), *targets))),
        word=tell_outcome(record),
        sentence=sentence,
        evaluated=_as_sentence(visible(record.function.evaluated))
        if record.function and record.function.evaluated
        else "",
        not_tried=tell_not_tried(record),
        took="" if record.took_s is None else show_duration(record.took_s),
        gate=tell_gate(record),
        sure=qualify_certainty(record, tell_certainty(record, row)),
        strips=strips,
        ticks=tuple(_list_ticks(record)) if _shows_ticks(record) else (),
        deaths=tuple(_tell_death(record, arm) for _, arm in sides_of(record) if arm.has_died),
        rows=rows,
        more=more,
        why=why,
        edit=tuple(line for edit in list_edits(record)[-1:] for line in shorten_edit(edit, why)),
        next_step=record.next_step,
        done=NOTHING_LEFT if _is_done(record) else "",
        row=row,
        curve=CURVES.get(row.metric, row.metric) if row else "",
    )


def tell_gate(record: ComparisonRecord) -> str:
    """Return whether a comparison passes its gate: `Gate function passed (function: passed).`; empty without one."""
    if record.gate is None:
        return ""
    word = {0: "passed", 1: "failed", 3: "is undecided"}[record.gate.status]
    return f"Gate {record.gate.name} {word} ({visible(record.gate.reason)})."


def _is_done(record: ComparisonRecord) -> bool:
    """Return whether the comparison leaves nothing to do: it is certain, and no step follows."""
    doubts = record.coverage.doubts if record.coverage is not None else ()
    return record.next_step is None and outcome_of(record) in ("same", "improved") and not doubts


def tell_not_tried(record: ComparisonRecord) -> str:
    """Return what a comparison leaves out, as a sentence; empty after a death, or for steps that were only compiled."""
    if record.not_tried:
        return _as_sentence(visible(record.not_tried))
    steps = max((curve.steps[-1] + 1 for curve in record.curves if curve.steps), default=0)
    if not record.trained or record.programs is not None or record.has_died or not steps:
        return ""
    judged = {row.metric for row in record.rows if row.verdict not in (NOT_JUDGED, "unknown")}
    known = record.equal_by_construction or (record.function and record.function.answer != "not evaluated")
    left_out = {
        "later steps": False,
        "other seeds": False,
        "other cases": False,
        "evaluations": EVALUATION.name in judged,
        "restarts": RESTORED.name in judged,
        "the steps in float64": known or any(floor.name == "same program" and floor.holds for floor in record.floors),
    }
    *names, last = [name for name, tried in left_out.items() if not tried]
    return f"Trained for {counted(steps, 'step')}; not tried: {', '.join(names)} and {last}."


def _name_arms(record: ComparisonRecord) -> str:
    """Return `main 1a2b3c4 → feature 5d6e7f8`."""
    names = []
    for _, arm in sides_of(record):
        version = record.code.get(arm.name)
        commit = "" if version is not None and version.changed else (arm.commit or "")[:7]
        ref = visible(version.name if version is not None else arm.ref)
        ref = ref if len(ref) <= MAX_REF_LENGTH else f"{ref[: MAX_REF_LENGTH - 9]}…{ref[-8:]}"
        names.append(ref if not commit or ref.startswith(commit) else f"{ref} {visible(commit)}")
    return " → ".join(names)


def tell_difference(record: ComparisonRecord, row: MetricDiff | None) -> str:
    """Return the result in one sentence: `16.9 % slower per step of the runs (80.0 → 93.5 ms; ±2 % allowed).`

    What both steps compute in float64 comes first, unless the verdict is about something else.
    """
    result = visible(tell_result(record.conclusion, whole=False))
    if record.has_died:
        dead = visible(tell_dead(record.conclusion)) or result
        dead = f"Y{dead[1:]}" if dead.startswith("your tree ") else dead  # other names are refs
        return f"{dead}: {words}." if (words := _find_cause(record)) else f"{dead}."
    is_blocked = any(finding.effect == "blocks" for finding in record.findings)
    known = "" if is_blocked else tell_function(record) or _tell_floors(record)
    decides = row is not None and row.metric in DECIDED_BY_FUNCTION and row.verdict == record.verdict
    is_one = record.function is not None and record.function.answer == "same"
    # other evaluations of equal weights are no matter of the step's function
    if decides and known and not (is_one and record.verdict in ("regressed", "changed")):
        return _as_sentence(known)
    if row is not None and row.metric == RESTORED.name and row.verdict == record.verdict:
        return _as_sentence(f"{row.title.lower()}: {visible(row.reason)}", known)
    others = [one for one in record.rows if one is not row and one.verdict == record.verdict and not one.allowed]
    if row is not None and not is_blocked and not others and row.effect is None and show_percent(row):
        return _as_sentence(f"{visible(row.title)} {show_values(row)}, {show_percent(row)}", known)
    if is_blocked or row is None or row.effect is None or row.metric not in PER_STEP or row.evidence == ONE_PROGRAM:
        title = shorten_title(result).rstrip(".")
        return _as_sentence(*((title, known) if record.verdict in ("regressed", "changed") else (known, title)))
    allowed = f"; {threshold_text(row)} allowed" if threshold_text(row) else ""
    values = f"{show_values(row)}{allowed}"
    if record.host is not None and row.evidence == HOST_LOOPS and row.baseline is not None:
        left, right = record.host.cpu_s if row.metric == CPU_TIME.name else record.host.wall_s
        values = f"the host takes {show_seconds_of(left, right)} of {1000 * row.baseline:.3g} ms{allowed}"
    if row.verdict in ("same", "unknown"):
        word = "no difference" if row.verdict == "same" else "not decided"
        return _as_sentence(known, f"{word}: {brief_row(row).title.lower()} {show_percent(row)} ({values})")
    word = "slower" if row.effect > 0 else "quicker"
    percent = show_percent(row).lstrip("+-")
    step = "typical step" if row.level == "typical steps" else "step"
    kind = "" if row.evidence == LOOPS else OF_KIND[row.metric]
    return _as_sentence(f"{percent} {word} per {step}{kind} ({values})", known)


def _find_cause(record: ComparisonRecord) -> str:
    """Return the cause of the first death in words; empty if it has no words."""
    cause = next((arm.cause_of_death for _, arm in sides_of(record) if arm.has_died), None)
    return cause.words if cause is not None else ""


def _tell_floors(record: ComparisonRecord) -> str:
    """Return the floors in one clause if all hold and something else is unknown, else "" (a headline names them)."""
    if outcome_of(record) != "unknown" or not _shows_ticks(record):
        return ""
    *names, last = [floor.name for floor in record.floors]
    return f"{', '.join(names)} and {last}" if names else last


def _as_sentence(*clauses: str) -> str:
    text = "; ".join(filter(None, clauses))
    return f"{text[:1].upper()}{text[1:]}."


def tell_function(record: ComparisonRecord) -> str:
    """Return whether both steps compute one function, in one clause; empty if this was not decided."""
    found = record.function
    if found is None or found.answer == "not evaluated":
        return ""
    if found.answer == "same":
        rounding = f", up to rounding ({found.gap:.0e} in float64)" if found.gap else " in float64"
        return f"the steps compute one function{rounding}"
    root = record.explanation.root if record.explanation is not None else None
    if root is None:
        return visible(found.claim)
    size = f", by up to {show_relative(max(gap.float64 for gap in found.gaps))}" if found.gaps else ""
    return f"another function{size}: {visible(root.sentence)}"


def tell_certainty(record: ComparisonRecord, row: MetricDiff | None) -> str:
    """Return how certain the verdict is, and why; if an arm died, how certain the cause of death is.

    `row`: the deciding row. Unless an arm died, empty without it. Also empty for an unknown row without an interval,
    unless a finding blocks the verdict.
    """
    if record.has_died:
        dead = [arm for arm in (record.baseline, record.candidate) if arm.has_died]
        code = "" if dead[0].exit_code is None else f", and the exit code {dead[0].exit_code}"
        named = all(arm.cause_of_death for arm in dead)
        return f"Sure: the log names the error{code}." if named else "Sure that it ended early, but not why."
    if row is None:
        return ""
    if any(finding.effect == "blocks" for finding in record.findings):
        return "Sure that the two cannot be compared, not whether the change makes a difference."
    if row.effect is None or row.effect_low is None or row.effect_high is None:
        if row.metric in DECIDED_BY_FUNCTION and record.function is not None:
            if record.function.answer == "another" and row.verdict != "unknown":
                return "Sure: from equal arguments, both steps compute different results in float64."
            if record.function.answer == "same" and row.verdict == "same":
                return "Sure: both steps compute one function in float64, where rounding falls to 1e-15."
        return "" if row.verdict == "unknown" else _tell_source(record, row)
    if row.evidence == ONE_PROGRAM:
        return "Sure: program, code, config and software are one, and the runs differ in time by no more than noise."
    low, high = sorted((row.effect_low, row.effect_high))
    interval = f"{show_share(low)} … {show_share(high)} %"
    if tells_nothing(low, high):
        return "The difference is not known to a factor of 2: this evidence tells nothing about it."
    if row.verdict == "unknown":
        lies = f"with 99 % confidence, the difference lies within {interval}."
        is_known = record.function is not None and record.function.answer == "same"
        return f"Sure of the function, not of the time: {lies}" if is_known else f"Not sure: {lies}"
    if row.verdict == "same" or row.evidence != ONE_RUN:
        return f"Sure: {interval} with 99 % confidence, by {row.evidence}."
    step = "a typical step " if row.level == "typical steps" else ""
    least = f"{step}at least {show_share(min(low, high, key=abs))} %"
    return f"Likely: {least} by one run of each, which cannot show whether something disturbed one of them."


def qualify_certainty(record: ComparisonRecord, sure: str) -> str:
    """Return how certain the verdict is; *same* is only likely where a part of the change was not seen."""
    doubts = record.coverage.doubts if record.coverage is not None else ()
    if record.verdict != "same" or not doubts:
        return sure
    more = f" And {'; '.join(doubts[1:])}." if doubts[1:] else ""
    return f"Likely, not sure: {visible(doubts[0])}.{more}"


def _tell_source(record: ComparisonRecord, row: MetricDiff) -> str:
    """Return where both values of a row without an interval come from, and so how certain the verdict is."""
    if row.metric == RESTORED.name:
        return "Sure: each arm's program was started again where it saved."
    if row.metric == LATER_STEPS.name:
        return "Sure: both trainers ran that far, with zeros in place of heavy results."
    if row.metric == CHECKPOINTS.name:
        return "Sure: the committed saves of both runs were counted."
    if row.baseline_source is not None and row.candidate_source is not None:
        are_values = row.baseline is not None and row.candidate is not None
        return "Sure: both values stand in the logs." if are_values else "Sure: both logs show it."
    if record.programs is not None:
        return "Sure: both programs were compiled."
    if record.trained and row.evidence:
        return f"{'Likely' if row.evidence == ONE_RUN else 'Sure'}: by {row.evidence}, more than equal runs differ."
    if record.trained:
        return "Sure: the runs recorded both."
    if row.evidence == ONE_PROGRAM:
        return "Sure: both arms lower one program."
    return "Sure: both first steps were recorded and compared."


def tell_why(record: ComparisonRecord, row: MetricDiff | None) -> str:
    """Return the known cause: of an explanation, else the finding that blocks the verdict, else the row's reason.

    If the sentence names the root, it is the root's commit, else a setting that differs; for an unknown row it is the
    place where the programs differ.
    """
    explained = record.explanation
    if explained is not None and explained.root is not None and tell_function(record):
        settings = (finding.message for finding in record.findings if finding.kind == "config")
        commit, code = explained.commit_of_root, record.code.get(record.candidate.name)
        if code is not None and code.changed and commit == code.name:
            return visible(f"not committed: {explained.root.cause}")
        return visible(commit or next(settings, ""))
    if explained is not None and (cost := tell_cost(record, explained)):
        return visible(cost)
    if explained is not None and (headline := headline_of(explained) or explained.headline):
        return visible(headline)
    if record.programs is not None and record.programs.differences:
        first = record.programs.differences[0]
        return visible(f"{first.what}, {first.where}: {first.baseline} → {first.candidate}")
    if record.has_died or row is None or row.verdict in ("same", NOT_JUDGED):
        return ""
    blocking = [finding.message for finding in record.findings if finding.effect == "blocks"]
    if blocking:
        return "" if record.conclusion.blocked == blocking[0] else visible(blocking[0])
    programs = [floor.evidence for floor in record.floors if floor.name == "same program" and floor.holds is False]
    if row.metric == FUNCTION.name and record.function is not None and record.function.is_beyond_run and programs:
        return first_clauses(visible(programs[0]))  # no tensor of the recorded steps differs
    if row.metric == FUNCTION.name or (row.metric == PROGRAM_TIME.name and row.effect is None):  # not measured
        return visible(row.reason)
    reason = visible(programs[0] if programs and row.verdict == "unknown" else row.reason)
    # of an undecided time, the next step has the rest
    return first_reasons(reason) if row.verdict == "unknown" and row.metric not in PER_STEP else first_clauses(reason)


def tell_cost(record: ComparisonRecord, explained: Explanation) -> str:
    """Return where the memory and the time differ, if these are what is better or worse; else empty."""
    differ = {row.metric for row in record.rows if row.verdict in ("regressed", "improved") and not row.allowed}
    if record.function is not None and record.function.answer == "another":
        return ""
    rows = explained.memory.buffers if explained.memory is not None and MEMORY.name in differ else ()
    more = [f"{_show_growth(row.candidate_bytes - row.baseline_bytes)} of {row.what}" for row in rows[:1]]
    more = [f"{text} at {row.line.place}" if row.line else text for text, row in zip(more, rows, strict=False)]
    times = explained.time.differences if explained.time is not None else ()
    if differ & set(PER_STEP):
        times = _agreeing_times(record, times)
    else:  # of the parts of a step only the host has a line where it compiles
        times = tuple(row for row in times if row.line and row.what == HOST and COMPILED_PROGRAMS.name in differ)
    more += [row.sentence for row in times[:1] if row.sure]
    touched = [f"{line.commit}: {line.place}" for line in explained.lines[:1] if more]
    return "; ".join([*touched, *more][:2])


def _agreeing_times(record: ComparisonRecord, times: Sequence[TimeDifference]) -> tuple[TimeDifference, ...]:
    """Return the parts of a step that lengthen it if it is longer, or shorten it; of one program, only its host."""
    slower = any(row.verdict == "regressed" for row in record.rows if row.metric in PER_STEP)
    is_one = any(floor.name == "same program" and floor.holds for floor in record.floors)
    return tuple(
        one for one in times if (one.candidate_s > one.baseline_s) == slower and (one.what == HOST or not is_one)
    )


def _show_growth(size: int) -> str:
    return f"{size / 2**20:+,.2f} MiB" if abs(size) >= 2**20 else f"{size / 2**10:+,.2f} KiB"


def _agree(strips: Sequence[Strip], row: MetricDiff) -> bool:
    """Return whether each arm's value is near one of its drawn levels, which other work on a processor can prevent."""
    values = {"baseline": row.baseline, "candidate": row.candidate}
    return all(
        any(abs(level.seconds / value - 1) <= MAX_APART for level in strip.levels)
        for strip in strips
        if (value := values[strip.side])
    )


def _draw_strips(record: ComparisonRecord) -> Iterator[Strip]:
    """Yield the levels of each arm's steps without the first step and the stalls."""
    for side, arm in sides_of(record):
        stalled = {stall.step for stall in record.stalls.get(arm.name, ())}
        found: list[tuple[int, float]] = []
        for curve in record.curves:
            if curve.arm == arm.name and curve.metric == STEP_TIME.curve:
                pairs = list(zip(curve.steps, curve.values, strict=True))[1:]
                found += [(s, v) for s, v in pairs if v and isfinite(v) and v > 0 and s not in stalled]
        if len(found) < LEAST_STEPS:
            return
        steps, logs = np.array([step for step, _ in found]), np.log(np.array([value for _, value in found]))
        border = find_border(logs)
        sets = [np.ones(len(logs), bool)] if border is None else [logs <= border, logs > border]
        levels = [
            Level(
                seconds=float(np.exp(logs[chosen]).mean()),
                share=float(chosen.mean()),
                steps=("all steps" if border is None else "the others" if nth else name_share(chosen, steps)),
            )
            for nth, chosen in enumerate(sets)
        ]
        yield Strip(side=side, name=visible(arm.ref), levels=tuple(levels))


def _shows_ticks(record: ComparisonRecord) -> bool:
    """Return whether nothing differs, or whether every floor holds and only a cost is undecided."""
    if outcome_of(record) == "unknown":
        is_blocked = any(finding.effect == "blocks" for finding in record.findings)
        return bool(record.floors) and all(floor.holds for floor in record.floors) and not is_blocked
    return outcome_of(record) == "same"


def _list_ticks(record: ComparisonRecord) -> Iterator[Tick]:
    """Yield the floors of the proof; without them, the telling rows that are the same."""
    if record.floors:
        for floor in record.floors[:MAX_TICKS]:
            if floor.holds is False:  # the verdict is *same* all the same: no cross
                yield Tick(word="not judged", text=f"another {floor.name.removeprefix('same ')}")
            else:
                yield Tick(word=HOLDS[floor.holds], text=floor.name)
        return
    rows = {row.metric: row for row in record.rows if row.verdict == "same"}
    for metric in [metric for metric in TELLING if metric in rows][:MAX_TICKS]:
        threshold = threshold_text(rows[metric])
        within = f" within {threshold}" if rows[metric].threshold and metric in PER_STEP else ""
        yield Tick(word="improved", text=f"{brief_row(rows[metric]).title}{within}")


def _choose_rows(record: ComparisonRecord, row: MetricDiff | None) -> tuple[tuple[BriefRow, ...], str]:
    """Return the rows that differ or are undecided, the worst first, then the loss; and the number of the others.

    One row is of the step time; its other levels are counted.
    """
    judged = [one for one in record.rows if one.verdict not in ("same", NOT_JUDGED) and one.metric != "end"]
    judged.sort(key=lambda one: (one is not row, WORST_FIRST.index(one.verdict), one.group == "maxview"))
    time = find_time_row(judged, record.verdict)
    shown = [one for one in judged if one is time or one.metric not in PER_STEP][:MAX_ROWS]
    if outcome_of(record) not in ("same", "died"):
        shown += [one for one in record.rows if one.metric == "loss_per_step" and one.verdict == "same"]
    left = [one for one in record.rows if one not in shown and one.metric != "end"]
    calm = sum(one.verdict in ("same", NOT_JUDGED) for one in left)
    times = sum(one in left for one in judged if one.metric in PER_STEP)
    counts = {
        "more differ or are unknown": len(left) - calm - times,
        "more of the step time": times,
        "more: same or not judged": calm,
    }
    return tuple(map(brief_row, shown)), "; ".join(f"{count} {what}" for what, count in counts.items() if count)


def brief_row(row: MetricDiff) -> BriefRow:
    """Return a row's cells: values with three significant digits, and the difference in percent."""
    return BriefRow(
        metric=row.metric,
        title=short_title(row),
        values=show_values(row),
        percent=show_percent(row),
        verdict=row.verdict,
    )


def short_title(row: MetricDiff) -> str:
    """Return the row's title; of a step time of runs, it names these instead of the level of the steps."""
    return SHORT_TITLES.get((row.metric, row.title), visible(row.title))


def _tell_death(record: ComparisonRecord, arm: ArmSummary) -> Death:
    error = arm.cause_of_death
    cause = visible(error.words or error.type) if error is not None else "its log names no cause"
    lines = read_last_lines(arm)
    log = visible(arm.logs[error.run if error.run < len(arm.logs) else 0]) if error is not None and arm.logs else ""
    return Death(
        side=name_side(record, arm.name) or "",
        cause="" if cause == _find_cause(record) else cause,
        message=visible(f"{error.type}: {error.message}") if error is not None else "",
        place=_join_places(error.place, f"line {error.line:,} of {log or 'its log'}") if error is not None else "",
        lines=lines[-LAST_LINES:],
        again=tell_again(error) if error is not None else "",
    )


def _join_places(*places: str) -> str:
    return " · ".join(visible(place) for place in places if place)


def read_last_lines(arm: ArmSummary) -> tuple[str, ...]:
    """Return the lines of an arm's log before and with the cause of death; empty if the log is not at hand."""
    error = arm.cause_of_death
    if error is None or error.run >= len(arm.logs):
        return ()
    path = Path(arm.logs[error.run])
    try:
        with path.open("rb") as file:
            file.seek(begin := max(0, error.offset - LAST_BYTES))
            before = file.read(error.offset - begin).decode("utf-8", "replace")
            own = file.readline(LAST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ()
    earlier = [line for line in before.split("\n")[1 if begin else 0 : -1] if not _FLOPS.match(line)]
    lines = [*earlier, own]
    return tuple(visible(line.rstrip("\r\n")) for line in lines if line.strip())


def shorten_title(headline: str) -> str:
    """Return the first clauses of a headline that fit into MAX_TITLE_LENGTH characters; else cut its middle."""
    if len(headline) <= MAX_TITLE_LENGTH:
        return headline
    ends = [
        end.start()
        for end in re.finditer(r"(?:[;:.] | \()", headline)
        if MAX_TITLE_LENGTH // 3 < end.start() <= MAX_TITLE_LENGTH
    ]
    return headline[: max(ends)] if ends else shorten(headline, MAX_TITLE_LENGTH)


def find_frame(lines: Sequence[str]) -> str:
    """Return the last stack frame in lines of a log, such as `utils/train_utils.py:217 in setup`; empty without one."""
    found = [match for line in lines for match in FRAME.finditer(line)]
    if not found:
        return ""
    path, line, function = found[-1].groups()
    return f"{'/'.join(path.split('/')[-3:])}:{line}" + (f" in {function}" if function else "")
