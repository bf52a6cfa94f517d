"""Compares JAX profiles of two arms: seconds per step in each function of the trainer, and in parts of the host.

An arm is one of the two compared versions of a trainer. The host's time has two parts: the gaps between steps, and the
garbage collections.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tasks.programs.source_lines import OptimisedProgram, name_function
from tasks.records.explanation import CodeLine, TimeDifference, TimeExplanation

MAX_LISTED = 20  # limit of differences in the record
MAX_SUMMARIZED = 3  # limit of sure differences that the sentence names
# A difference is sure if it exceeds MIN_SPREADS × the larger spread of the arms + MIN_SHARE × the time of a step's
# operations. No difference between two profiles of one program was that large (decision 0079).
MIN_SPREADS, MIN_SHARE = 2.0, 0.02
GAP, COLLECTION = "the host between the steps", "garbage collection of the host"
# Opcodes that contain other instructions. They are skipped, because the profile also lists the instructions inside.
_HOLDERS = frozenset({"while", "call", "conditional", "async-start", "async-done"})

type Work = tuple[str, str, CodeLine]  # operation, pass ("forward", "backward", …), source line
type Profile = Mapping[str, Any]  # the JSON that `model/compile/profile.py` prints; its times are in ns


class Part(NamedTuple):
    """The time per step in one function of the trainer (the mean of all devices) or in one part of the host.

    An instruction without a source line is a part of its own.
    """

    seconds: float
    spread: float  # the noise of `seconds`; on a device, the difference between even and odd steps
    work: Counter[Work]  # work → seconds; empty for a part of the host

    def sum_by(self, index: int) -> Counter[Any]:
        """Return the seconds by operation (index 0), pass (1) or source line (2)."""
        found: Counter[Any] = Counter()
        for work, seconds in self.work.items():
            found[work[index]] += seconds
        return found


NOTHING = Part(0.0, 0.0, Counter())


class ProfiledStep(NamedTuple):
    """One arm's profile, and the program with the source lines of its instructions."""

    profile: Profile
    program: OptimisedProgram | None  # None: parts are named by instruction, not by function
    name: str  # name of the step's function


def find_profile(folder: Path) -> Path | None:
    """Return the newest profile below a folder, or None. JAX creates a subfolder for each profile, named by time."""
    found = sorted(folder.rglob("*.xplane.pb"))
    return found[-1] if found else None


def compare_profiles(baseline: ProfiledStep, candidate: ProfiledStep, names: tuple[str, str]) -> TimeExplanation | None:
    """Return the differences by function and part of the host; None if a profile contains no program."""
    sides = (baseline, candidate)
    modules = [module for side in sides if (module := _find_module(side)) is not None]
    if len(modules) < 2:
        return None
    parts = [_sum_parts(side, module) for side, module in zip(sides, modules, strict=True)]
    operations = [sum(part.seconds for part in one.values()) for one in parts]
    hosts = [_host_parts(side.profile, module["runs"]) for side, module in zip(sides, modules, strict=True)]
    found = []
    for left, right in (parts, hosts):
        for key in left.keys() | right.keys():
            both = left.get(key, NOTHING), right.get(key, NOTHING)
            found.append(_compare_part(key, both, max(operations), names))
    # sure differences first, then the largest
    found.sort(key=lambda one: (not one.sure, -abs(one.candidate_s - one.baseline_s), one.what))
    steps = [_step_seconds(module["runs"]) for module in modules]
    return TimeExplanation(
        sentence=_say_largest(found, steps, names),
        steps=(len(modules[0]["runs"]), len(modules[1]["runs"])),
        step_s=(steps[0], steps[1]),
        differences=tuple(found[:MAX_LISTED]),
    )


def _find_module(side: ProfiledStep) -> Mapping[str, Any] | None:
    """Return the step's program in a profile: by its name, else the program with most time; None without a program."""
    modules: Mapping[str, Mapping[str, Any]] = side.profile["modules"]
    if named := modules.get(f"jit_{side.name}"):
        return named
    return max(modules.values(), key=lambda one: sum(times[0] for times in one["instructions"].values()), default=None)


def _sum_parts(side: ProfiledStep, module: Mapping[str, Any]) -> dict[str, Part]:
    """Return function → part, with all passes together. An instruction without a source line has its name as key.

    All operations of libraries have the key "". Lines are no keys, because they move between commits.
    """
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    work: dict[str, Counter[Work]] = defaultdict(Counter)
    unit = 1e9 * side.profile["devices"]
    for name, times in module["instructions"].items():
        located = side.program.located.get(name) if side.program else None
        if (located.instruction.opcode if located else name.partition(".")[0]) in _HOLDERS:
            continue
        source = located.source if located else CodeLine()
        key = name_function(source) if source.file else name
        for n, nanoseconds in enumerate(times):
            sums[key][n] += nanoseconds / unit
        what, phase = (located.what, located.phase) if located else (name, "")
        work[key][what, phase, source] += times[0] / unit
    return {key: Part(least, abs(even - odd), work[key]) for key, (least, even, odd) in sums.items()}


def _host_parts(profile: Profile, runs: Sequence[Sequence[float]]) -> dict[str, Part]:
    """Return two parts: the shortest gap between steps, and the mean garbage collection per gap; none for one step.

    Other load on the machine lengthens gaps and steps. The excess of their median over the minimum measures this load,
    so a smaller difference between gaps is not sure.
    """
    if len(runs) < 2:
        return {}
    gaps = [max(after[0] - before[1], 0.0) / 1e9 for before, after in pairwise(runs)]
    steps = [(end - begin) / 1e9 for begin, end in runs]
    load = max(statistics.median(times) - min(times) for times in (gaps, steps))
    first, last = runs[0][1], runs[-1][0]
    within = [spent for begin, spent in profile["collections"] if first <= begin <= last]
    collected, count = sum(within) / len(gaps) / 1e9, len(within)
    return {
        GAP: Part(min(gaps), load / MIN_SPREADS, Counter()),
        # fewer collections than gaps: the mean is noise, so the spread equals the mean
        COLLECTION: Part(collected, 0.0 if count >= len(gaps) else collected, Counter()),
    }


def _step_seconds(runs: Sequence[Sequence[float]]) -> float:
    begins = [begin for begin, _ in runs]
    if len(begins) < 2:
        return (runs[0][1] - runs[0][0]) / 1e9 if runs else 0.0
    return statistics.median(after - before for before, after in pairwise(begins)) / 1e9


def _compare_part(key: str, parts: tuple[Part, Part], step_s: float, names: tuple[str, str]) -> TimeDifference:
    """Return a part's difference, described by the operations and passes that take longer in the slower arm."""
    slow = int(parts[1].seconds >= parts[0].seconds)
    more = abs(parts[1].seconds - parts[0].seconds)
    gained = [parts[slow].sum_by(index) - parts[1 - slow].sum_by(index) for index in (0, 1)]
    kinds, phases = ([word for word, _ in one.most_common() if word] for one in gained)
    what = ", ".join([*kinds[:2], *phases]) or key
    lines = [_find_line(part, kinds[0] if kinds else "") for part in parts]
    line = lines[slow] or lines[1 - slow]
    place = f" at {line.place}" if line else ""
    least = MIN_SPREADS * max(part.spread for part in parts) + MIN_SHARE * step_s
    return TimeDifference(
        what=what,
        baseline_s=parts[0].seconds,
        candidate_s=parts[1].seconds,
        baseline_line=lines[0],
        candidate_line=lines[1],
        sure=more > least,
        sentence=f"{names[slow]} takes {1e3 * more:.2f} ms more a step in {what}{place}",
    )


def _find_line(part: Part, kind: str) -> CodeLine | None:
    """Return the line with most time in this kind of operation, else in any kind; None without a line or its file."""
    of_kind = part._replace(work=Counter({work: seconds for work, seconds in part.work.items() if work[0] == kind}))
    most = (of_kind.sum_by(2) or part.sum_by(2)).most_common(1)
    return most[0][0] if most and most[0][0].file else None


def _say_largest(found: Sequence[TimeDifference], steps: Sequence[float], names: tuple[str, str]) -> str:
    said = f"{1e3 * steps[0]:.1f} ms in {names[0]} and {1e3 * steps[1]:.1f} ms in {names[1]}"
    largest = "; ".join(one.sentence for one in found[:MAX_SUMMARIZED] if one.sure)
    if not largest:
        return f"no line takes certainly longer in one arm (a profiled step takes {said})"
    return f"a profiled step takes {said}: {largest}"
