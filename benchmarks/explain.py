"""Measures how often an explanation names the right line, for planted faults and for edits without effect.

    python -m benchmarks.explain ours|maxtext|innocent|cost|slow [NAME]… [--python PYTHON]

`maxtext` needs the Python of an environment with MaxText 0.2.4 (--python, or $MAXVIEW_MAXTEXT_PYTHON). Each prints a
table in Markdown and ends with exit status 1 if its target is missed.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine import describe_machine
from benchmarks.planted_changes import INNOCENT, MAXTEXT, OURS, SLOW, Change
from tasks.causes.explain import PROFILED
from tasks.causes.instruction_lines import read_optimised
from tasks.causes.observe_arm import observe_arm
from tasks.causes.profiles import ProfiledStep, compare_profiles, find_profile, read_profiles
from tasks.causes.programs import compare_program_files
from tasks.causes.tensors import compare_tensors
from tasks.launch.config import config_text
from tasks.launch.move import run_to_end
from tasks.records import ProgramExplanation, Root, RunPlan, TensorComparison
from tasks.records.observation import OPTIMISED, PROFILE, PROGRAM
from tasks.resolve.arm_trainers import ArmOptions
from tasks.resolve.plans import Request, resolve

ROOT = Path(__file__).parent.parent
ARMS = ("before", "after")
SIZE = ("steps=8", "max_target_length=64")
LEAST_RIGHT, MOST_COST = 0.9, 3.0


class Copy(NamedTuple):
    """A trainer's source that may be changed, and the plans of its runs by case."""

    folder: Path  # of the sources
    plans: dict[str, RunPlan]


class Result(NamedTuple):
    """The explanation of one change."""

    change: Change
    tensors: TensorComparison | None
    program: ProgramExplanation | None
    lines: frozenset[tuple[str, int]]  # file, line of what was changed
    notes: tuple[str, ...]

    @property
    def first(self) -> Root | None:
        """The first root of the explanation."""
        return self.tensors.roots[0] if self.tensors and self.tensors.roots else None

    @property
    def is_found(self) -> bool:
        """Whether the first root is at the right line, or the right argument."""
        root = self.first
        if root is None:
            return False
        if self.change.argument:
            return root.kind == "argument" and self.change.argument in root.sentence
        return self.is_right(root.file, root.line, root.function) or self.is_right(*_split(root.candidate_place))

    @property
    def is_found_in_program(self) -> bool:
        """Whether the first operation that only one program has is at the right line."""
        rows = self.program.operations[:1] if self.program else ()
        lines = [line for row in rows for line in (row.baseline_line, row.candidate_line) if line]
        return any(self.is_right(line.file, line.line, line.function) for line in lines)

    def is_right(self, file: str, line: int, function: str) -> bool:
        """Whether a place is that of the change."""
        return (Path(file).name, line) in self.lines or function.partition(".<locals>")[0] in self.change.also


def _split(place: str) -> tuple[str, int, str]:
    place, _, function = place.partition(" ")
    file, _, line = place.rpartition(":")
    return file, int(line) if line.isdigit() else 0, function


def copy_ours(folder: Path) -> Copy:
    """The sources of this checkout in a folder, and the plan of an NNX run of each case."""
    for name in ("model", "configs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    cases = sorted({change.case for change in (*OURS, *INNOCENT)})
    plans = resolve(Request(comparison="linen-vs-nnx", cases=tuple(cases), overrides=SIZE, repeats=1), folder / "out")
    return Copy(
        folder / "model",
        {plan.case: plan.model_copy(update={"checkout": str(folder)}) for plan in plans if plan.arm == "nnx"},
    )


def copy_maxtext(folder: Path, python: str) -> Copy:
    """The sources of an installed MaxText in a folder, first on the path of its runs, and the plans of its Linen."""
    asked = [python, "-c", "import importlib.util as u; print(u.find_spec('maxtext').submodule_search_locations[0])"]
    place = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    shutil.copytree(place, folder / "maxtext", ignore=shutil.ignore_patterns("__pycache__", "assets"))
    options = ArmOptions(software=tuple(f"{arm}:{python}" for arm in ("linen", "nnx")))
    cases = tuple(sorted({change.case for change in MAXTEXT}))
    request = Request(comparison="maxtext-linen-vs-nnx", cases=cases, overrides=SIZE, repeats=1, arms=options)
    plans = {plan.case: plan for plan in resolve(request, folder / "out") if plan.arm == "linen"}
    return Copy(
        folder / "maxtext",
        {
            case: plan.model_copy(update={"environment": {**plan.environment, "PYTHONPATH": str(folder)}})
            for case, plan in plans.items()
        },
    )


def plant(folder: Path, change: Change) -> tuple[Path, str, frozenset[tuple[str, int]]]:
    """Change the source; returns the file, its text before, and the changed lines before and after."""
    holding = [path for path in sorted(folder.rglob("*.py")) if change.before in path.read_text(encoding="utf-8")]
    assert holding, f"{change.name}: no file of {folder} holds {change.before!r}"
    path = next((one for one in holding if "linen" not in one.name), holding[0])
    text = path.read_text(encoding="utf-8")
    changed = text.replace(change.before, change.after, 1)
    path.write_text(changed, encoding="utf-8")
    lines = set()
    for here, there in ((text, changed), (changed, text)):
        others = set(there.splitlines())
        start = text[: text.index(change.before)].count("\n")
        for number, line in enumerate(here.splitlines()[start : start + 8], start + 1):
            if line not in others:
                lines.add((path.name, number))
    return path, text, frozenset(lines)


def look(copy: Copy, change: Change, baselines: dict[str, Path], scratch: Path) -> Result:
    """Observe the changed and the unchanged trainer."""
    plan = copy.plans[change.case]
    if change.case not in baselines:
        baselines[change.case] = scratch / f"before-{change.case}"
        found = observe_arm(plan, baselines[change.case])
        assert found.step, found.notes
    path, text, lines = plant(copy.folder, change)
    after = scratch / "after"
    try:
        found = observe_arm(plan, after, start=baselines[change.case])
    finally:
        path.write_text(text, encoding="utf-8")
    if not found.step:
        return Result(change, None, None, lines, found.notes)
    before = baselines[change.case]
    tensors = compare_tensors(before, after, ARMS)
    program = compare_program_files(before / PROGRAM, after / PROGRAM, ARMS, (str(copy.folder.parent),) * 2)
    return Result(change, tensors, program, lines, found.notes)


def run_faults(copy: Copy, changes: Sequence[Change], scratch: Path) -> int:
    """The table of planted faults: how many first roots are at the right line."""
    print("| fault | named first | right | by the program |\n|---|---|:-:|:-:|")
    baselines: dict[str, Path] = {}
    results = []
    for change in changes:
        result = look(copy, change, baselines, scratch)
        results.append(result)
        root = result.first.sentence[:110] if result.first else "; ".join(result.notes)[:110] or "no root"
        marks = ["yes" if mark else "no" for mark in (result.is_found, result.is_found_in_program)]
        print(f"| {change.name} | {root.replace('|', '/')} | {marks[0]} | {marks[1]} |", flush=True)
    right = sum(result.is_found for result in results)
    both = sum(result.is_found_in_program for result in results)
    print(f"\n{right} of {len(results)} first roots are at the right line; {both} by the program alone")
    return 0 if right >= LEAST_RIGHT * len(results) else 1


def run_innocent(copy: Copy, changes: Sequence[Change], scratch: Path) -> int:
    """The table of edits without effect: named roots, and the comparison of the programs."""
    print("| edit | roots | programs |\n|---|--:|---|")
    baselines: dict[str, Path] = {}
    named = differing = 0
    for change in changes:
        result = look(copy, change, baselines, scratch)
        roots = len(result.tensors.roots) if result.tensors else -1
        named += roots != 0
        answer = result.program.answer if result.program else "not observed"
        differing += answer == "differs"
        print(f"| {change.name} | {roots} | {answer} |", flush=True)
    print(f"\na root is named for {named} of {len(changes)}; programs of {differing} differ")
    return 1 if named else 0


def run_slow(copy: Copy, changes: Sequence[Change], scratch: Path) -> int:
    """The table of planted slow operations: whether the profiles name them first, and their share of a step."""
    print("| slow operation | of a step | named first | right |\n|---|--:|---|:-:|")
    plan, before, after = copy.plans["01_base"], scratch / "before", scratch / "after"
    assert observe_arm(plan, before, tensors=False, profile=PROFILED).profile
    right = 0
    for change in changes:
        path, text, lines = plant(copy.folder, change)
        try:
            found = observe_arm(plan, after, start=before, tensors=False, profile=PROFILED)
        finally:
            path.write_text(text, encoding="utf-8")
        assert found.profile, found.notes
        profiles = read_profiles([one for side in (before, after) if (one := find_profile(side / PROFILE))])
        steps = [
            ProfiledStep(profile, read_optimised(side / OPTIMISED, str(copy.folder.parent)), found.step or "")
            for profile, side in zip(profiles, (before, after), strict=True)
        ]
        times = compare_profiles(steps[0], steps[1], ARMS)
        assert times is not None
        first = times.differences[0]
        line = first.candidate_line
        is_right = line is not None and (Path(line.file).name, line.line) in lines
        right += is_right
        share = (first.candidate_s - first.baseline_s) / times.operations_s[0]
        print(
            f"| {change.name} | {100 * share:.0f} % | {first.sentence[:100]} | {'yes' if is_right else 'no'} |",
            flush=True,
        )
    print(f"\n{right} of {len(changes)} slow operations are named first")
    return 0 if right >= LEAST_RIGHT * len(changes) else 1


def run_cost(copy: Copy, scratch: Path) -> int:
    """Processor time and memory of an observation over those of the plain run of 3 steps."""
    plan = copy.plans["01_base"]
    assert observe_arm(plan, scratch / "warm").step  # fills JAX's compilation cache for both
    folder = scratch / "plain" / plan.run_name
    folder.mkdir(parents=True)
    short = {**plan.config, "steps": 3, "base_output_directory": str(folder.parent)}
    plain = plan.model_copy(
        update={
            "directory": str(folder),
            "config": short,
            "argv": tuple(w.replace(plan.directory, str(folder)) for w in plan.argv),
        }
    )
    (folder / "config.yml").write_text(config_text(plain), encoding="utf-8")
    seconds = []
    for begin in (partial(run_to_end, plain, scratch / "plain.log"), partial(observe_arm, plan, scratch / "observed")):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begin()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    ratio = seconds[1] / seconds[0]
    print("| | plain, 3 steps | observed | ratio |\n|---|--:|--:|--:|")
    print(f"| CPU-s | {seconds[0]:.1f} | {seconds[1]:.1f} | {ratio:.2f} |")
    return 0 if ratio <= MOST_COST else 1


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("ours", "maxtext", "innocent", "cost", "slow"))
    parser.add_argument("names", nargs="*", help="changes, by words of their names")
    parser.add_argument("--python", default=os.environ.get("MAXVIEW_MAXTEXT_PYTHON", ""))
    given = parser.parse_args()
    changes = {"ours": OURS, "maxtext": MAXTEXT, "innocent": INNOCENT, "cost": (), "slow": SLOW}[given.what]
    chosen = [one for one in changes if not given.names or any(word in one.name for word in given.names)]
    print(describe_machine() + "\n")
    with tempfile.TemporaryDirectory(prefix="maxview-explain-") as folder:
        scratch = Path(folder)
        (scratch / "source").mkdir()
        source = scratch / "source"
        copy = copy_maxtext(source, given.python) if given.what == "maxtext" else copy_ours(source)
        if given.what == "cost":
            return run_cost(copy, scratch)
        runs = {"innocent": run_innocent, "slow": run_slow}
        return runs.get(given.what, run_faults)(copy, chosen, scratch)


if __name__ == "__main__":
    sys.exit(main())
