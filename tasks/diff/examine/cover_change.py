"""Decides what of a change a comparison covered: the changed lines that ran, and whether all that writes the state was
seen.

A certain *same* takes for granted that the compared programs contain the change. This module names what speaks against
it: lines that did not run, conditions that went one way only, functions that were not evaluated.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from tasks.records.change import ChangeCoverage, ChangedCode, ChangedStatement, ListedLine, RanLines, UnseenLines
from tasks.records.compared_case import ComparisonRecord, Floor
from tasks.records.function import FunctionComparison
from tasks.records.observation import LoopRecord, Observation
from tasks.records.plan import RunPlan
from tasks.records.run import RunRecord
from tasks.records.text import counted
from tasks.resolve.changed_code import changed_between, find_dependents, find_readers

SHOWN = 3  # places in a sentence
LISTED = 200  # statements on the page
ATTRIBUTED = 50  # changed lines that are looked up one by one in the host's loop
MANY = 5_000  # changed lines of which only the numbers are told

type Both[T] = tuple[T, T]


def cover_lines(
    changed: ChangedCode, ran: Both[RanLines], roots: Both[Path], *, settings_differ: bool = False
) -> ChangeCoverage:
    """Return which changed lines ran.

    ran: of the baseline and the candidate. roots: their checkouts. settings_differ: whether the runs' resolved settings
    differ, as they do where a changed config file sets a value of this case.
    """
    counted_ones = [one for one in changed.statements if not _is_unused_import(one, ran, roots)]
    facts = {
        "lines": sum(one.count for one in counted_ones),
        "files": len({one.file for one in counted_ones}),
    }
    others = [file for file in changed.others if file not in ran[0].opened | ran[1].opened]
    other_runs = len(others) < len(changed.others) or settings_differ
    problem = ran[1].problem or ran[0].problem
    if not counted_ones and not changed.others:
        return ChangeCoverage()
    if problem:
        return ChangeCoverage(
            **facts, unknown=problem, doubts=(f"which of the changed lines ran is not known: {problem}",)
        )
    unseen = [one for one in counted_ones if not _has_run(one, ran, roots)]
    lines = sum(one.count for one in unseen)
    facts["ran"] = facts["lines"] - lines
    places = tuple(_join(unseen, ran)) if facts["lines"] <= MANY else ()
    listed = tuple(
        ListedLine(side=one.side, file=one.file, line=one.first, text=one.text, ran=one not in unseen)
        for one in counted_ones[:LISTED]
    )
    gaps, doubts = [], []
    taken = [one for one in counted_ones if one not in unseen and not _only_guards(one, unseen, ran)]
    if not taken and not other_runs:
        what = _say_not_taken(facts["lines"], facts["ran"])
        gaps.append(f"the change did not run: {what} ({_list(places, others)})")
    elif unseen or (others and not settings_differ):
        did_not = f"{counted(lines, 'changed line')} did not run" if lines else "changed files were not read"
        doubts.append(f"{did_not} ({_list(places, [] if settings_differ else others)})")
    doubts += _one_sided([*counted_ones, *changed.replaced], ran)
    on_host = [*_on_host(counted_ones, ran, roots), *(_read_files(changed, ran) if not settings_differ else ())]
    doubts += on_host
    doubts += [f"which entries of {_place(one)} were used is not known" for one in counted_ones if one.entries > 1][:1]
    doubts += [changed.unread] if changed.unread else []
    return ChangeCoverage(
        **facts, unseen=places, listed=listed, gaps=tuple(gaps), doubts=tuple(doubts), on_host=bool(on_host)
    )


def cover_programs(
    plans: Both[RunPlan],
    observations: Both[Observation],
    ran: Both[RanLines],
    function: FunctionComparison | None,
    wanted: int,
) -> ChangeCoverage | None:
    """Return what two recorded steps cover of the change between their arms; None if there is nothing to tell.

    observations, ran: of the processes that recorded the steps. function: of both steps in float64; None: not tried.
    wanted: number of calls of the step that should be recorded.
    """
    found = cover_lines_of(plans, ran)
    is_equal_code = found == ChangeCoverage()
    doubts = () if is_equal_code else (*_name_short_recordings(observations, wanted), *doubt_others(observations))
    if function is not None:
        return add_function(_add(found, (), doubts), function)
    return _add(found, () if is_equal_code else tuple(cover_loop(observations)), doubts)


def doubt_others(observations: Both[Observation]) -> Iterator[str]:
    """Yield the functions of the loop that write no state, and whose programs differ: they may make its data.

    The data of the recorded steps were compared, those of later steps were not.
    """
    loops = [one.loop for one in observations if one.loop is not None]
    if len(loops) < 2:
        return
    evaluated = {name for one in observations if one.cycle is not None for name in one.cycle.functions}
    known = evaluated | loops[0].writers.keys() | loops[1].writers.keys()
    for loop, other, one in zip(loops, reversed(loops), observations, strict=True):
        for name in loop.others.keys() - known:
            own, theirs = loop.digests.get(name), other.digests.get(name)
            if name in other.others:
                if own and theirs and own != theirs and loop is loops[0]:
                    yield f"`{name}` runs another program in either arm, and was not evaluated"
            elif own and own not in other.digests.values() and not name.startswith("_"):  # as JAX's own operations do
                yield f"only {one.arm} calls `{name}`, which was not evaluated"


def _name_short_recordings(observations: Both[Observation], wanted: int) -> Iterator[str]:
    short = [one for one in observations if one.loop is not None and one.loop.calls < wanted]
    if short:
        steps = [f"{one.loop.calls} of {wanted} steps of {one.arm}" for one in short if one.loop is not None]
        notes = dict.fromkeys(one.notes[0] for one in short if one.notes)
        yield f"only {' and '.join(steps)} were recorded{f' ({"; ".join(notes)})' if notes else ''}"


def add_function(coverage: ChangeCoverage | None, function: FunctionComparison) -> ChangeCoverage | None:
    """Return the coverage with what both steps in float64 left out; None if there is nothing to tell."""
    return _add(coverage, function.not_evaluated, function.doubts)


def doubt_programs(
    coverage: ChangeCoverage | None, floors: Sequence[Floor], function: FunctionComparison | None
) -> ChangeCoverage | None:
    """Return the coverage with a doubt if two programs differ, and nothing tells whether they compute one function.

    Equal losses of some steps do not tell: the programs may part in a later step, or at other weights.
    """
    differ = any(floor.name == "same program" and floor.holds is False for floor in floors)
    if not differ or (function is not None and function.answer != "not evaluated"):
        return coverage
    why = "it was not asked" if function is None else function.sentence
    return _add(coverage, (), (f"the programs differ, and whether they compute one function is not known: {why}",))


def _add(coverage: ChangeCoverage | None, gaps: tuple[str, ...], doubts: tuple[str, ...]) -> ChangeCoverage | None:
    found = coverage or ChangeCoverage()
    found = found.replace(gaps=(*found.gaps, *gaps), doubts=(*found.doubts, *doubts))
    return found if found != ChangeCoverage() else None


def cover_runs(runs: Sequence[RunRecord]) -> ChangeCoverage | None:
    """Return which lines of the change the runs of two arms executed; None unless both arms have a checkout."""
    plans = {run.arm: run.plan for run in reversed(runs) if run.plan is not None}
    arms = list(dict.fromkeys(run.arm for run in runs if run.plan is not None))
    if len(arms) != 2:
        return None
    left, right = (join_ran([run.ran for run in runs if run.arm == arm]) for arm in arms)
    return cover_lines_of((plans[arms[0]], plans[arms[1]]), (left, right))


def join_ran(runs: Sequence[RanLines | None]) -> RanLines:
    """Return the lines that the runs of one arm executed together."""
    known = [run for run in runs if run is not None and not run.problem]
    if not known:
        return next((run for run in runs if run is not None), RanLines(problem="its runs noted no lines"))
    ways = [run.ways for run in known]
    return RanLines(
        lines={
            file: frozenset().union(*(run.lines.get(file, ()) for run in known)) for run in known for file in run.lines
        },
        functions={
            file: frozenset().union(*(run.functions.get(file, ()) for run in known))
            for run in known
            for file in run.functions
        },
        # equal code has its conditions in equal order
        ways={
            file: tuple(
                (same[0][0], frozenset().union(*(truths for _, truths in same)))
                for same in zip(*(one[file] for one in ways if file in one), strict=False)
            )
            for one in ways
            for file in one
        },
        opened=frozenset().union(*(run.opened for run in known)),
    )


def cover_lines_of(plans: Both[RunPlan], ran: Both[RanLines]) -> ChangeCoverage | None:
    """Return which lines of the change between two plans' checkouts ran; None unless both have one."""
    changed = changed_between(*plans)
    if changed is None or plans[0].checkout is None or plans[1].checkout is None:
        return None
    roots = (Path(plans[0].checkout), Path(plans[1].checkout))
    return cover_lines(changed, ran, roots, settings_differ=_settings(plans[0]) != _settings(plans[1]))


def _settings(plan: RunPlan) -> dict[str, Any]:
    return {key: value for key, value in plan.config.items() if key != "run_name"}


def is_uncovered(record: ComparisonRecord) -> bool:
    """Return whether a verdict is unknown because the change, or what writes the state, was not covered."""
    return record.verdict == "unknown" and record.coverage is not None and bool(record.coverage.gaps)


def suggest_case(coverage: ChangeCoverage | None) -> str:
    """Return a case that ran the changed lines that did not run here; empty if none is known."""
    return next((one.case for one in coverage.unseen if one.case), "") if coverage is not None else ""


def cover_loop(observations: Both[Observation], *, cycles: bool = False) -> list[str]:
    """Return what writes the state beside the evaluated step, a sentence each; functions of one program are excused.

    cycles: whether the cycles of both loops were evaluated, and not the steps alone.
    """
    found: list[str] = []
    loops = [one.loop for one in observations]
    if cycles:
        return list(dict.fromkeys(gap for one in observations for gap in _gaps_of_cycle(one)))
    for loop, other, arm in zip(loops, reversed(loops), (one.arm for one in observations), strict=True):
        if loop is None:
            continue
        for name, arrays in loop.writers.items():
            if not _is_one_program(name, loop, other):
                found.append(f"`{name}` writes {counted(arrays, 'array')} and was not evaluated")
        if loop.outside:
            found.append(
                f"{counted(loop.outside, 'array')} that the step is given {_is(loop.outside)} written outside of "
                "jitted functions, and that was not evaluated"
            )
        if loop.beside:
            found.append(
                f"{counted(loop.beside, 'array')} with the shapes of weights, such as an average of them, "
                f"{_is(loop.beside)} made anew in each step outside of jitted functions"
            )
        for name in loop.callbacks:
            found.append(f"the step calls Python (`{name}`) for values, which were not evaluated")
        if loop.changed_at:
            found.append(
                f"the step of {arm} runs {counted(loop.programs, 'program')}, another one from call "
                f"{loop.changed_at[0]} on, and only the first was evaluated"
            )
    fed = [_list_fed(one) for one in observations]
    for name in fed[0].keys() & fed[1].keys():
        if fed[0][name] != fed[1][name]:
            arm = observations[fed[1][name]].arm
            found.append(f"{name} is a result of the step before in {arm} only; the other arm's host gives it anew")
    return list(dict.fromkeys(found))


def _gaps_of_cycle(one: Observation) -> Iterator[str]:
    """Yield what writes the state beside the evaluated cycle."""
    assert one.cycle is not None
    yield from one.cycle.gaps
    if one.loop is None:
        return
    if one.loop.unrecorded:
        yield (
            f"{counted(one.loop.unrecorded, 'array')} with the shapes of weights {_is(one.loop.unrecorded)} made anew "
            "by the host in each step"
        )
    for name in one.loop.callbacks:
        yield f"the step calls Python (`{name}`) for values, which were not evaluated"


def _list_fed(observation: Observation) -> dict[str, bool]:
    """Return the meaning of each argument → whether it is a result of the step before; empty if that is unknown."""
    feeds = observation.feeds or ()
    return {one.meaning: feed is not None for one, feed in zip(observation.arguments, feeds, strict=False)}


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _is_one_program(name: str, loop: LoopRecord, other: LoopRecord | None) -> bool:
    """Return whether a function has one program, the same in both arms, and is called as often."""
    if other is None:
        return False
    digests = loop.digests.get(name), other.digests.get(name)
    return bool(digests[0]) and digests[0] == digests[1] and loop.others.get(name) == other.others.get(name)


def _is_unused_import(one: ChangedStatement, ran: Both[RanLines], roots: Both[Path]) -> bool:
    """Return whether nothing in its own file reads what an import binds."""
    if one.kind != "import":
        return False
    root = roots[one.side == "candidate"]
    return not find_readers(root, [one.file], frozenset(one.names))


def _has_run(one: ChangedStatement, ran: Both[RanLines], roots: Both[Path]) -> bool:
    """Return whether a statement was executed, and what it defines used."""
    side = ran[one.side == "candidate"]
    lines, started = side.lines.get(one.file, frozenset()), side.functions.get(one.file, frozenset())
    if one.kind == "function":
        return any(name == one.function and one.first <= line <= one.last for name, line in started)
    if one.kind == "class" and any(name.startswith(f"{one.function}.") for name, _ in started):
        return True
    if one.lambdas and not all(any(line == at and "<lambda>" in name for name, line in started) for at in one.lambdas):
        return False
    if lines.isdisjoint(range(one.first, one.last + 1)):
        return False
    if one.guard == one.first and any(
        line == one.guard and truths == {False} for line, truths in side.ways.get(one.file, ())
    ):
        return False  # behind its condition, on one line
    if one.kind == "code" or not one.names:
        return True
    root = roots[one.side == "candidate"]
    names = frozenset(one.names)
    readers = find_readers(root, [one.file] if one.kind == "import" else sorted(side.lines), names)
    return any(not side.lines.get(file, frozenset()).isdisjoint(found) for file, found in readers.items())


def _one_sided(statements: Sequence[ChangedStatement], ran: Both[RanLines]) -> Iterator[str]:
    """Yield the conditions on changed lines that went one way only, also of the baseline's lines.

    A script assigns names in its loop, so statements that define a name have conditions, too.
    """
    found = []
    for one in statements:
        if one.kind not in ("code", "definition"):
            continue
        where = "" if one.side == "candidate" else " of the baseline"
        for line, truths in ran[one.side == "candidate"].ways.get(one.file, ()):
            if len(truths) == 1 and one.first <= line <= one.last:
                word = str(not min(truths)).lower()
                found.append(f"{one.file}:{line}{where} `{one.text.rstrip(':')}` was never {word}")
    found = list(dict.fromkeys(found))
    if found:
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        yield f"{', '.join(found[:SHOWN])}{more}"


def _on_host(statements: Sequence[ChangedStatement], ran: Both[RanLines], roots: Both[Path]) -> Iterator[str]:
    """Yield the changed lines whose values the host's loop reads: what they give later steps was not recorded.

    These are lines of the loop itself, and lines before it that bind a name which the loop reads.
    """
    places = list(_places_on_host([one for one in statements if one.side == "candidate"], ran[1], roots[1]))
    if not places:
        removed = [one for one in statements if one.side == "baseline"]
        places = [f"{place} of the baseline" for place in _places_on_host(removed, ran[0], roots[0])]
    if places:
        more = f" and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
        runs = "run" if len(places) > 1 else "runs"
        yield f"{', '.join(places[:SHOWN])}{more} {runs} in the host's loop, and later steps may differ"


def _places_on_host(statements: Sequence[ChangedStatement], ran: RanLines, root: Path) -> Iterator[str]:
    rest = []
    for one in statements:
        if one.prints:
            continue
        lines = range(one.last + 1, one.end + 1) if one.kind == "function" else range(one.first, one.last + 1)
        if not ran.host.get(one.file, frozenset()).isdisjoint(lines):
            yield _place(one)
        elif one.kind in ("code", "definition") and one.names:
            rest.append(one)
    # all at once first: most changes bind no name that the loop reads
    host = sorted(ran.host)
    (found,) = find_dependents(root, host, [rest])
    if not any(lines & ran.host[file] for file, lines in found.items()):
        return
    for one, readers in zip(rest, find_dependents(root, host, [[one] for one in rest[:ATTRIBUTED]]), strict=False):
        read = {file: min(lines & ran.host[file]) for file, lines in readers.items() if lines & ran.host[file]}
        for file, line in sorted(read.items())[:1]:
            yield f"{_place(one)} (read at {file}:{line})"
    if len(rest) > ATTRIBUTED:
        yield f"names that {counted(len(rest), 'changed line')} bind"


def _read_files(changed: ChangedCode, ran: Both[RanLines]) -> Iterator[str]:
    """Yield the changed files that are not Python's and were read: later steps may use other values of them."""
    opened = [file for file in changed.others if file in ran[0].opened | ran[1].opened]
    if opened:
        more = f" and {len(opened) - SHOWN} more" if len(opened) > SHOWN else ""
        was = "were" if len(opened) > 1 else "was"
        yield f"{', '.join(opened[:SHOWN])}{more} {was} read, and which values later steps use is not known"


def _place(one: ChangedStatement) -> str:
    return f"{one.file}:{one.first}"


def _only_guards(one: ChangedStatement, unseen: Sequence[ChangedStatement], ran: Both[RanLines]) -> bool:
    """Return whether a statement is a condition that went one way, past changed lines that did not run."""
    ways = ran[one.side == "candidate"].ways.get(one.file, ())
    truths = [found for line, found in ways if one.first <= line <= one.last]
    is_near = any(other.file == one.file and one.first <= other.first and other.guard == one.first for other in unseen)
    return is_near and any(len(found) == 1 for found in truths)


def _say_not_taken(lines: int, ran: int) -> str:
    if not lines:
        return "its files were not read"
    if ran:
        return f"{counted(ran, 'condition')} of its {counted(lines, 'line')} never let the others run"
    return "its line was not executed" if lines == 1 else f"none of its {lines:,} lines was executed"


def _join(statements: Sequence[ChangedStatement], ran: Both[RanLines]) -> Iterator[UnseenLines]:
    """Yield the places of statements; those of one function that follow each other are one place."""
    ordered = sorted(statements, key=lambda one: (one.file, one.side, one.first))
    for (file, side, function), group in groupby(ordered, key=lambda one: (one.file, one.side, one.function)):
        parts = list(group)
        first, started = parts[0].first, ran[side == "candidate"].functions.get(file, frozenset())
        begin = max((line for name, line in started if name == function and line <= first), default=None)
        yield UnseenLines(
            file=file, first=first, last=max(one.last for one in parts), function=function,
            offset=None if begin is None else first - begin,
        )  # fmt: skip


def _list(places: Sequence[UnseenLines], files: Sequence[str]) -> str:
    named = [f"{one.file}:{one.first}" + (f"–{one.last}" if one.last > one.first else "") for one in places]
    named += files
    more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    return f"{', '.join(named[:SHOWN])}{more}"
