"""Turns two profiles of a few steps into the source lines, and the parts of the host, that take longer in one."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tasks.causes.instruction_lines import OptimisedProgram
from tasks.causes.read_with_jax import read_with_jax
from tasks.causes.source_lines import name_place
from tasks.records import CodeLine, TimeDifference, TimeExplanation

MOST_LISTED = 20
HEADLINE = 3
# a difference is sure if it exceeds twice the difference of both halves of an arm's steps, and this share of a step's
# operations: among profiles of one program, no difference did (decision 0079)
LEAST_SPREADS, LEAST_SHARE = 2.0, 0.02
GAP, COLLECTION = "the host between the steps", "garbage collection of the host"
# they contain other instructions, which the profile lists too
_HOLDERS = frozenset({"while", "call", "conditional", "async-start", "async-done"})

type Work = tuple[str, str, CodeLine]  # operation, pass, line
type Profile = Mapping[str, Any]  # as `model/compile/profile.py` writes it


class Part(NamedTuple):
    """The seconds of a step in one function of the trainer, or in one part of the host."""

    seconds: float
    spread: float  # how far chance may move them
    work: Counter[Work]  # seconds; of the host: none

    def sum_by(self, index: int) -> Counter[Any]:
        """Return the seconds by operation (0), pass (1) or line (2)."""
        found: Counter[Any] = Counter()
        for work, seconds in self.work.items():
            found[work[index]] += seconds
        return found


NOTHING = Part(0.0, 0.0, Counter())


class ProfiledStep(NamedTuple):
    """One arm's profile, and the program with the source lines of its instructions."""

    profile: Profile
    program: OptimisedProgram | None
    name: str  # of the step's function


def find_profile(folder: Path) -> Path | None:
    """Return the newest profile in a folder, None if there is none; JAX creates a subfolder for each."""
    found = sorted(folder.rglob("*.xplane.pb"))
    return found[-1] if found else None


def read_profiles(paths: Sequence[Path]) -> list[Profile]:
    """Return the contents of profiles. Raises ValueError if one cannot be read."""
    return read_with_jax("profile", paths)


def compare_profiles(baseline: ProfiledStep, candidate: ProfiledStep, names: tuple[str, str]) -> TimeExplanation | None:
    """Return the differences by source line, the largest first; None if a profile contains no run of the step."""
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
    # a difference that the steps of one arm also show comes last
    found.sort(key=lambda one: (not one.sure, -abs(one.candidate_s - one.baseline_s), one.what))
    steps = [_step_seconds(module["runs"]) for module in modules]
    return TimeExplanation(
        sentence=_say_largest(found, steps, names),
        steps=(len(modules[0]["runs"]), len(modules[1]["runs"])),
        step_s=(steps[0], steps[1]),
        differences=tuple(found[:MOST_LISTED]),
    )


def _find_module(side: ProfiledStep) -> Mapping[str, Any] | None:
    """Return the step's program: by its name, else the program with most of the time."""
    modules: Mapping[str, Mapping[str, Any]] = side.profile["modules"]
    if named := modules.get(f"jit_{side.name}"):
        return named
    return max(modules.values(), key=lambda one: sum(times[0] for times in one["instructions"].values()), default=None)


def _sum_parts(side: ProfiledStep, module: Mapping[str, Any]) -> dict[str, Part]:
    """Return the parts by function of the trainer, all passes together: between commits, lines move more often."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    work: dict[str, Counter[Work]] = defaultdict(Counter)
    unit = 1e9 * side.profile["devices"]
    for name, times in module["instructions"].items():
        located = side.program.located.get(name) if side.program else None
        if (located.instruction.opcode if located else name.partition(".")[0]) in _HOLDERS:
            continue
        source = located.source if located else CodeLine()
        key = name_place(source) if source.file else name
        for n, nanoseconds in enumerate(times):
            sums[key][n] += nanoseconds / unit
        what, phase = (located.what, located.phase) if located else (name, "")
        work[key][what, phase, source] += times[0] / unit
    return {key: Part(least, abs(even - odd), work[key]) for key, (least, even, odd) in sums.items()}


def _host_parts(profile: Profile, runs: Sequence[Sequence[float]]) -> dict[str, Part]:
    """Return the shortest gap between two steps, and the garbage collections in a gap.

    Other load lengthens most gaps and most steps, so differences smaller than their spread prove nothing.
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
        GAP: Part(min(gaps), load / LEAST_SPREADS, Counter()),
        # a collection in only some gaps is chance
        COLLECTION: Part(collected, 0.0 if count >= len(gaps) else collected, Counter()),
    }


def _step_seconds(runs: Sequence[Sequence[float]]) -> float:
    begins = [begin for begin, _ in runs]
    if len(begins) < 2:
        return (runs[0][1] - runs[0][0]) / 1e9 if runs else 0.0
    return statistics.median(after - before for before, after in pairwise(begins)) / 1e9


def _compare_part(key: str, parts: tuple[Part, Part], step_s: float, names: tuple[str, str]) -> TimeDifference:
    """Describe a difference by the operations, passes and lines that the slower arm spends more time in."""
    slow = int(parts[1].seconds >= parts[0].seconds)
    more = abs(parts[1].seconds - parts[0].seconds)
    gained = [parts[slow].sum_by(index) - parts[1 - slow].sum_by(index) for index in (0, 1)]
    kinds, phases = ([word for word, _ in one.most_common() if word] for one in gained)
    what = ", ".join([*kinds[:2], *phases]) or key
    lines = [_find_line(part, kinds[0] if kinds else "") for part in parts]
    line = lines[slow] or lines[1 - slow]
    place = f" at {line.place}" if line else ""
    least = LEAST_SPREADS * max(part.spread for part in parts) + LEAST_SHARE * step_s
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
    """Return the line of a part where operations of a kind take most time; of any kind if it has none of this."""
    of_kind = part._replace(work=Counter({work: seconds for work, seconds in part.work.items() if work[0] == kind}))
    most = (of_kind.sum_by(2) or part.sum_by(2)).most_common(1)
    return most[0][0] if most and most[0][0].file else None


def _say_largest(found: Sequence[TimeDifference], steps: Sequence[float], names: tuple[str, str]) -> str:
    said = f"a step takes {1e3 * steps[0]:.1f} ms in {names[0]} and {1e3 * steps[1]:.1f} ms in {names[1]}"
    largest = "; ".join(one.sentence for one in found[:HEADLINE] if one.sure)
    return f"{said}: {largest or 'no line differs by more than the steps of one arm do'}"
