"""Measures how often an explanation names the right line, for planted faults and for edits without effect.

    python -m benchmarks.explain ours|maxtext|innocent|cost|slow|cases [NAME]… [--python PYTHON]

`cases` compares the first step of MaxText's Linen and NNX from a shared start, case by case. `maxtext` and `cases` need
the Python of an environment with MaxText 0.2.4 (--python, or $MAXVIEW_MAXTEXT_PYTHON). Each prints a table in Markdown
and ends with exit status 1 if its target is missed.
"""

import argparse
import multiprocessing
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
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
from tasks.causes.tensors import compare_tensors, different_results
from tasks.launch.config import config_text
from tasks.launch.rerun import run_to_end
from tasks.records import ProgramExplanation, Root, RunPlan, TensorComparison
from tasks.records.observation import OPTIMISED, PROFILE, PROGRAM
from tasks.resolve.arm_trainers import ArmOptions
from tasks.resolve.plans import Request, resolve

ROOT = Path(__file__).parent.parent
ARMS = ("before", "after")
MANY_DEVICES = "cpu-8"
SIZE = ("steps=24", "max_target_length=64")
LEAST_RIGHT, MOST_COST, ROUNDS = 0.9, 3.0, 3


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


def resolve_maxtext(
    cases: Sequence[str], python: str, out: Path, overrides: tuple[str, ...] = (), target: str | None = None
) -> list[RunPlan]:
    """The plans of MaxText's Linen and NNX. Raises ValueError if it refuses a case."""
    options = ArmOptions(software=tuple(f"{arm}:{python}" for arm in ("linen", "nnx")))
    comparison = "maxtext-linen-vs-nnx"
    request = Request(
        comparison=comparison, cases=tuple(cases), overrides=overrides, repeats=1, arms=options, target=target
    )
    return list(resolve(request, out))


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
    found = resolve_maxtext(sorted({change.case for change in MAXTEXT}), python, folder / "out", SIZE)
    plans = {plan.case: plan for plan in found if plan.arm == "linen"}
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
    run = [path for path in holding if "linen" not in path.name]  # the twin of an NNX file holds it too
    assert len(run) == 1, f"{change.name}: {len(run)} files of {folder} hold {change.before!r}"
    (path,) = run
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


def run_cases(python: str, names: Sequence[str], scratch: Path) -> int:
    """The table of MaxText's cases: whether Linen and NNX have one first loss, or else the first root."""
    print("| case | first loss | |\n|---|---|---|")
    missed = 0
    for case in sorted(path.stem for path in (ROOT / "configs" / "cases").glob("*.yml")):
        if not names or any(name in case for name in names):
            loss, said, is_explained = compare_case(case, python, scratch / case)
            missed += not is_explained
            print(f"| {case} | {loss} | {said.replace('|', '/')} |", flush=True)
    print(f"\n{missed} cases have neither equal losses nor a named root")
    return 1 if missed else 0


def compare_case(case: str, python: str, scratch: Path) -> tuple[str, str, bool]:
    """One row: the first losses, the results that differ or the first root, and whether there is an answer."""
    resolved = partial(resolve_maxtext, [case], python, scratch / "out")
    try:
        try:
            plans = resolved()
        except ValueError:  # one device may be too few
            plans = resolved(target=MANY_DEVICES)
    except ValueError as error:
        return "–", f"refused: {str(error).splitlines()[0]}", True
    plans = sorted(plans, key=lambda plan: plan.arm)
    arms = [plan.arm for plan in plans]
    for tensors in (False, True):  # an evaluation takes longer than the rest of an observation
        folders = [scratch / arm for arm in arms]
        first = observe_arm(plans[0], folders[0], tensors=tensors)
        if not first.step:
            return "–", f"{arms[0]} cannot run it: {first.notes[0]}", True
        second = observe_arm(plans[1], folders[1], start=folders[0], tensors=tensors)
        if not second.step:
            return "–", f"{arms[1]} cannot run it: {second.notes[0]}", True
        losses = [
            next(one for one in found.results if one.name.endswith("['learning/loss']")) for found in (first, second)
        ]
        shown = " and ".join(dict.fromkeys(f"{one.mean:.9g}" for one in losses))
        if losses[0].digest == losses[1].digest:
            others = different_results((first, second))
            return (
                shown,
                f"equal; {len(others)} other results differ: {others[0]}" if others else "equal, as all results",
                True,
            )
    roots = compare_tensors(folders[0], folders[1], (arms[0], arms[1]), starts_shared=True).roots
    return shown, roots[0].sentence if roots else "no root", bool(roots)


def run_cost(copy: Copy, scratch: Path) -> int:
    """Processor time and memory of an observation over those of the plain run of 3 steps, in interleaved rounds."""
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
    begins = partial(run_to_end, plain, scratch / "plain.log"), partial(observe_arm, plan, scratch / "observed")
    print("| | plain, 3 steps: CPU-s, MiB | observed: CPU-s, MiB | ratios |\n|---|--:|--:|--:|")
    ratios = []
    for number in range(ROUNDS):
        spent = [spend_alone(begin) for begin in begins]
        ratios.append([observed / of_plain for of_plain, observed in zip(*spent, strict=True)])
        shown = [f"{seconds:.1f}, {size:.0f}" for seconds, size in spent]
        print(f"| {number} | {shown[0]} | {shown[1]} | {ratios[-1][0]:.2f}, {ratios[-1][1]:.2f} |", flush=True)
    return 0 if all(statistics.median(one) <= MOST_COST for one in zip(*ratios, strict=True)) else 1


def spend_alone(begin: Callable[[], object]) -> tuple[float, float]:
    """CPU-s and the peak memory in MiB of the processes that a function starts, as the only children of a process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(spend, begin).result()


def spend(begin: Callable[[], object]) -> tuple[float, float]:
    """See `spend_alone`; here all children of this process count."""
    begin()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("ours", "maxtext", "innocent", "cost", "slow", "cases"))
    parser.add_argument("names", nargs="*", help="changes, by words of their names")
    parser.add_argument("--python", default=os.environ.get("MAXVIEW_MAXTEXT_PYTHON", ""))
    given = parser.parse_args()
    changes = {"ours": OURS, "maxtext": MAXTEXT, "innocent": INNOCENT, "slow": SLOW}.get(given.what, ())
    chosen = [one for one in changes if not given.names or any(word in one.name for word in given.names)]
    print(describe_machine() + "\n")
    with tempfile.TemporaryDirectory(prefix="maxview-explain-") as folder:
        scratch = Path(folder)
        if given.what == "cases":
            return run_cases(given.python, given.names, scratch)
        (scratch / "source").mkdir()
        source = scratch / "source"
        copy = copy_maxtext(source, given.python) if given.what == "maxtext" else copy_ours(source)
        if given.what == "cost":
            return run_cost(copy, scratch)
        runs = {"innocent": run_innocent, "slow": run_slow}
        return runs.get(given.what, run_faults)(copy, chosen, scratch)


if __name__ == "__main__":
    sys.exit(main())
