"""Compares the first step of MaxText's Linen and NNX from a shared start, case by case: the table of docs/maxtext.md.

    python -m benchmarks.maxtext_first_steps [CASE]… [--python PYTHON]

PYTHON (else $MAXVIEW_MAXTEXT_PYTHON) belongs to an environment with MaxText 0.2.4. Exit status: 0 if each case has
equal losses or a named first difference, 1 if not.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.machine import describe_machine
from questions.explain.tensors import compare_tensors, different_results
from tasks.experiments.observe_arm import observe_arm
from tasks.records.plan import ArmOverrides, RunPlan
from tasks.resolve.plans import Request, resolve

ROOT = Path(__file__).parent.parent
MANY_DEVICES = "cpu-8"


def resolve_maxtext(cases: Sequence[str], python: str, out: Path, target: str | None = None) -> list[RunPlan]:
    """Return the plans of MaxText's Linen and NNX. Raises ValueError for a case that MaxText refuses."""
    options = ArmOverrides(software=tuple(f"{arm}:{python}" for arm in ("linen", "nnx")))
    comparison = "maxtext-linen-vs-nnx"
    request = Request(comparison=comparison, cases=tuple(cases), repeats=1, arms=options, target=target)
    return list(resolve(request, out))


def run_cases(python: str, names: Sequence[str], scratch: Path) -> int:
    """Print the table of cases: whether Linen and NNX have one first loss, or else the first differing tensor."""
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
    """Return a row: (first losses, differing results or first differing tensor, whether the case is explained)."""
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
    for tensors in (False, True):  # tensors take most time: only if losses differ
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


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="cases, by words of their names")
    parser.add_argument("--python", default=os.environ.get("MAXVIEW_MAXTEXT_PYTHON", ""))
    given = parser.parse_args()
    print(describe_machine() + "\n")
    with tempfile.TemporaryDirectory(prefix="maxview-explain-") as folder:
        return run_cases(given.python, given.names, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
