"""Measures whether an explanation names the line of a planted change first: the table in docs/explain.md.

    nice python -m benchmarks.planted_roots [WORD]…

WORDs choose changes by their names. Each arm trains three steps of the tiny model; the third is evaluated in float64.
Exit status: 0 if no line is missed, 1 if one is.
"""

import resource
import sys
import tempfile
from pathlib import Path

from benchmarks.machine import describe_machine
from benchmarks.planted_changes import PLANTED, PlantedChange, plant
from questions.explain.tensors import compare_tensors
from tasks.experiments.observe_arm import observe_arm
from tasks.records.observation import TensorComparison
from tasks.records.plan import RunPlan
from tasks.resolve.plans import Request, resolve

SMALL = ("steps=10", "max_target_length=64", "enable_checkpointing=false")
EVALUATED = 2  # the call after the warm-up
NAMES = ("baseline", "changed")


def plan_small(change: PlantedChange, out: Path) -> RunPlan:
    """Return the plan of the unchanged trainer."""
    request = Request(
        comparison="linen-vs-nnx", cases=(change.case,), target=change.target, repeats=1, overrides=SMALL + change.set
    )
    plan = next(plan for plan in resolve(request, out) if plan.arm == "linen")
    flags = f"{plan.environment['XLA_FLAGS']} --xla_backend_optimization_level=0"  # the step itself runs three times
    return plan.replace(environment={**plan.environment, "XLA_FLAGS": flags})


def find_roots(change: PlantedChange, scratch: Path, tree: Path) -> TensorComparison:
    """Return the comparison of the changed trainer in the folder `tree` with the unchanged one.

    The unchanged trainer is observed once per setting.
    """
    plan = plan_small(change, scratch / "out")
    folder = scratch / "-".join((change.case, change.target, *change.set))
    if not folder.exists():
        observe_arm(plan, folder, evaluated=EVALUATED)
    changed = scratch / "changed" / tree.name
    plant(change, tree)
    observe_arm(plan.replace(checkout=str(tree)), changed, start=folder, evaluated=EVALUATED)
    return compare_tensors(folder, changed, NAMES, starts_shared=True)


def names_line(change: PlantedChange, found: TensorComparison, tree: Path) -> bool:
    """Whether the first root is at the line of the change, in the source of either arm. tree: the changed source."""
    if found.first is None:
        return False
    places = [(Path(found.first.path), found.first.line)]
    if found.first.candidate_place:
        there, _, _ = found.first.candidate_place.partition(" ")
        file, _, line = there.rpartition(":")
        places.append((tree / file, int(line)))
    return any(change.line in file.read_text(encoding="utf-8").splitlines()[line - 1] for file, line in places)


def main() -> int:
    """The command line."""
    words = sys.argv[1:]
    chosen = [change for change in PLANTED if not words or any(word in change.name for word in words)]
    print(describe_machine() + "\n\n| change | case | right line | roots | first |\n|---|---|---|--:|---|")
    missed = 0
    with tempfile.TemporaryDirectory(prefix="maxview-roots-") as folder:
        for change in chosen:
            tree = Path(folder) / "trees" / str(PLANTED.index(change))
            found = find_roots(change, Path(folder), tree)
            right = names_line(change, found, tree)
            missed += not right
            row = (change.name, change.case, "yes" if right else "**no**", len(found.roots), found.sentence)
            print("| " + " | ".join(str(one).replace("|", "/") for one in row) + " |", flush=True)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"\n{len(chosen) - missed} of {len(chosen)} lines are named first; {spent.ru_utime / 60:.1f} CPU-minutes")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
