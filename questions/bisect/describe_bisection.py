"""Turns a finished search into its record (`Bisection`), with all texts for display."""

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from questions.bisect.bisected_metric import PROGRAM, BisectedMetric
from questions.bisect.commits import describe_commit
from questions.bisect.ledger import describe_program_change
from questions.bisect.points import Span
from questions.bisect.search import NOT_SURE, find_current_belief, mark_points
from questions.bisect.terms import MAX_RUNS, WORSE, Finish, Judge, Line
from tasks.diff.phrases.amounts import show_duration
from tasks.records.bisection import BisectedPoint, Bisection, FactorEffect
from tasks.records.compared_case import Verdict
from tasks.records.run import RunRecord
from tasks.records.run_facts import seconds_between
from tasks.resolve.options import BisectOptions

_POINT = re.compile(r"\{(\d+)\}")  # `{3}` in a note: replaced by the name of point 3
_DECIMAL = re.compile(r"\d+\.\d{4,}(?:e[-+]?\d+)?")
_EQUAL_PAIR = re.compile(r" \((\S+) and \1\)")


def describe_points(points: Sequence[BisectedPoint], line: Line, judge: Judge | None) -> tuple[BisectedPoint, ...]:
    """Return the points with their marks, levels, numbers of runs and posterior probabilities, where known.

    judge: None if good or bad has no run.
    """
    marks = {0: ("good", ""), line.last: ("bad", "")} | (mark_points(line, judge) if judge is not None else {})
    belief = find_current_belief(line, judge) if judge is not None else None
    found = []
    for number, point in enumerate(points):
        changes: dict[str, object] = {"ruled_out": line.ruled_out.get(number, "")}
        if number in marks:
            changes["mark"], changes["why"] = marks[number]
        if judge is not None and line.alike[number] == number:
            changes["runs"] = judge.runs(number)
            if number and judge.judges_time and judge.runs(number) and not judge.failed(number):
                one = judge.compare(0, number)
                changes |= {"level": one.effect, "low": one.effect_low, "high": one.effect_high}
        if belief is not None:
            changes["chance"] = round(float(belief.culprits[number]), 4)
        found.append(point.replace(**changes))
    return tuple(found)


def describe_progress(points: Sequence[BisectedPoint], line: Line, judge: Judge) -> tuple[float, str] | None:
    """Return (probability of the likeliest culprit, text with its name); None if there is no posterior."""
    belief = find_current_belief(line, judge)
    if belief is None:
        return None
    best = int(belief.culprits.argmax())
    chance, left = float(belief.culprits[best]), int((belief.culprits > 0.01).sum())
    return chance, f"{left} left; {points[best].name} {100 * chance:.0f} %"


def write_headline(finish: Finish, points: Sequence[BisectedPoint], case: str, metric: BisectedMetric) -> str:
    """Return the answer of the search as one sentence."""
    if finish.outcome in ("no difference", "ledger") or (finish.culprit is None and not finish.suspects):
        return f"{case}: {finish.why}"
    if finish.culprit is not None:
        point = points[finish.culprit]
        text = _shorten_numbers(finish.pair_verdict.reason) if finish.pair_verdict else ""
        what = "version" if point.version else "commit"
        subject = "" if point.version else f' "{point.commit.subject}"'
        if metric.name == "end":
            return f"{point.name}{subject} is the first {what} at which {case} died: {text}"
        did = f"{culprit_verdict(finish, metric)} {case}"
        return f"{point.name}{subject} is the first {what} that {did}: {f'{metric.title} {text}'.strip()}"
    return f"{case}: {metric.title} changed at {_name_suspects(finish, points)}; {finish.why}"


def culprit_verdict(finish: Finish, metric: BisectedMetric) -> Verdict:
    """Return the verdict on the culprit: of its comparison with the point before it, else by the compile ledger."""
    if finish.pair_verdict is not None and finish.pair_verdict.verdict in WORSE:
        return finish.pair_verdict.verdict
    return "changed" if metric.name == PROGRAM else "regressed"  # of two programs, neither is better


def _shorten_numbers(text: str) -> str:
    """Shorten numbers with four or more decimals to six significant digits; remove ` (a and b)` if a equals b."""
    short = _DECIMAL.sub(lambda match: f"{float(match[0]):.6g}", text)
    return _EQUAL_PAIR.sub("", short)


def _name_suspects(finish: Finish, points: Sequence[BisectedPoint]) -> str:
    """Return the suspects as text: `one of 4 commits from 2651ceca7 to 5cea6c1c0, most likely b2c6a687f (62 %)`.

    Without the likeliest if its probability is at most 50 %. A single suspect is only named.
    """
    suspects = [points[number] for number in finish.suspects]
    if len(suspects) == 1:
        return suspects[0].name
    what = "versions" if suspects[0].version else "commits"
    told = f"one of {len(suspects)} {what} from {suspects[0].name} to {suspects[-1].name}"
    likeliest = max(suspects, key=lambda point: point.chance)
    likely = f", most likely {likeliest.name} ({100 * likeliest.chance:.0f} %)"
    return told + (likely if likeliest.chance > 0.5 else "")


def write_record(
    request: BisectOptions, span: Span, case: str, target: str, metric: BisectedMetric, finish: Finish,
    points: Sequence[BisectedPoint], runs: Mapping[int, Sequence[RunRecord]], *, corners: Sequence[FactorEffect] = (),
) -> Bisection:  # fmt: skip
    """Return the record of one case; the field `program` stays empty."""
    culprit, programs, message, diffstat = finish.culprit, "", "", ""
    if culprit is not None:
        if not points[culprit].version:
            message, diffstat = describe_commit(span.repository, points[culprit].commit.sha)
        compiled = [point.ledger for point in points[:culprit] if point.ledger.program]
        programs = describe_program_change(compiled[-1], points[culprit].ledger) if compiled else ""
    done = [run for records in runs.values() for run in records]
    facts = [request.comparison, case, target, span.good.sha, span.bad.sha, request.more.packages, metric.name]
    words = next_words(request, span, case, finish)
    return Bisection(
        id=hashlib.sha256("\n".join(facts).encode()).hexdigest()[:10],
        comparison=request.comparison,
        case=case,
        target=target,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        good=points[0].name if request.more.packages else span.good.name,
        bad=points[-1].name if request.more.packages else span.bad.name,
        metric=metric.name,
        title=metric.title,
        outcome=finish.outcome,
        headline=write_headline(finish, points, case, metric),
        points=tuple(points),
        culprit=culprit,
        suspects=finish.suspects,
        verdict=culprit_verdict(finish, metric) if culprit is not None else "unknown",
        effect=finish.pair_verdict.reason if finish.pair_verdict and culprit is not None else "",
        notes=tuple(_POINT.sub(lambda match: points[int(match[1])].name, note) for note in finish.notes),
        corners=tuple(corners),
        message=message,
        diffstat=diffstat,
        programs=programs,
        trained=sum(bool(records) for records in runs.values()),
        runs=len(done),
        seconds=spent_seconds(done),
        next_command=shlex.join(words),
    )


def spent_seconds(runs: Sequence[RunRecord]) -> float:
    """Return the total seconds of the runs, from the first to the last time in each log; 0 without times."""
    return sum(seconds_between(run.reading.started, run.reading.ended) or 0.0 for run in runs)


def show_counts(record: Bisection) -> str:
    """Return the counts of a bisection as text.

    For example `41 commits, 9 with another program, 6 trained (14 runs, 11 min), 35 ruled out without training`.
    """
    count, what = len(record.points) - 1, "version" if record.points[-1].version else "commit"
    untrained = BisectedMetric(name=record.metric, title="").is_of_program
    parts = [f"{count} {what}{'' if count == 1 else 's'}"]
    if any(point.ledger.program for point in record.points):
        parts.append(f"{record.other_programs} with another program")
    if broken := sum(bool(point.ledger.error) for point in record.points):
        parts.append(f"{broken} {'does' if broken == 1 else 'do'} not compile")
    if record.runs:
        spent = f", {show_duration(record.seconds)}" if record.seconds else ""
        if untrained:
            parts.append(f"the programs of {record.trained} compared with good's, nothing trained{spent}")
        else:
            parts.append(f"{record.trained} trained ({record.runs} run{'' if record.runs == 1 else 's'}{spent})")
    if record.outcome in ("found", "range"):
        parts.append(f"{record.ruled_out} ruled out{'' if untrained else ' without training'}")
    return ", ".join(parts)


def next_words(request: BisectOptions, span: Span, case: str, finish: Finish) -> list[str]:
    """Return the words of the next command: compare the culprit with the point before it, or search on; [] for none."""
    repository = ["--repository", span.repository] if span.named else []
    target = ["--target", request.target] if request.target else []
    sets = [word for pair in request.more.overrides for word in ("--set", pair)]
    common = ["--case", case, *target, *sets, *repository]
    if finish.culprit is not None and not request.more.packages:
        only = ["--only", "function"] if request.metric == "function" else []
        shas = [span.points[number].commit.sha[:9] for number in (finish.before or 0, finish.culprit)]
        return ["maxview", "compare", request.comparison, "--baseline", shas[0], "--branch", shas[1], *common, *only]
    if finish.outcome == "range" and finish.why == NOT_SURE:
        return ["maxview", "bisect", request.comparison, "--good", request.good, "--bad", request.bad, *common,
                *_twice_the_limits(request)]  # fmt: skip
    return []


def _twice_the_limits(request: BisectOptions) -> list[str]:
    """Return the request's options for metric, packages and limits, with the limits doubled."""
    more, budget_s = request.more, request.read_budget()
    given = {"--metric": request.metric, "--packages": more.packages, "--budget": budget_s and f"{2 * budget_s:.0f}s"}
    words = [word for name, value in given.items() if value for word in (name, str(value))]
    if more.max_runs or budget_s is None:
        words += ["--max-runs", str(2 * (more.max_runs or MAX_RUNS))]
    return words
