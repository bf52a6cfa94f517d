"""Measures whether an explanation names the line of a planted change first: the table in docs/explain.md.

    nice python -m benchmarks.planted_roots [WORD]…

WORDs choose changes by their names. Each arm trains three steps of the tiny model, or of a stranger's; the third is
evaluated in float64. Prints a figure for the planted changes, and one for those of the kinds of public bug reports.
Exit status: 0 if no line is missed, 1 if one is.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.machine import describe_machine
from benchmarks.planted_changes import PLANTED, ROOT, STRANGER, PlantedChange, plant
from benchmarks.reported_changes import REPORTED
from questions.explain.tensors import compare_tensors
from tasks.experiments.observe_arm import observe_arm
from tasks.observe.recorder import prepare_recorder
from tasks.records.observation import LOG, TensorComparison
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
    plan = next(plan for plan in resolve(request, out) if plan.arm == change.arm)
    flags = f"{plan.environment['XLA_FLAGS']} --xla_backend_optimization_level=0"  # the step itself runs three times
    return plan.replace(environment={**plan.environment, "XLA_FLAGS": flags})


def find_roots(change: PlantedChange, scratch: Path, tree: Path) -> TensorComparison:
    """Return the comparison of the changed trainer in the folder `tree` with the unchanged one.

    The unchanged trainer is observed once per setting.
    """
    folder = scratch / "-".join((change.arm, change.script or change.case, change.target, *change.set))
    changed = scratch / "changed" / tree.name
    plant(change, tree)
    if change.script:
        if not folder.exists():
            observe_stranger(STRANGER / f"{change.script}.py", folder)
        observe_stranger(tree / f"{change.script}.py", changed, start=folder)
        return compare_tensors(folder, changed, NAMES, starts_shared=True)
    plan = plan_small(change, scratch / "out")
    if not folder.exists():
        observe_arm(plan, folder, evaluated=EVALUATED)
    observe_arm(plan.replace(checkout=str(tree)), changed, start=folder, evaluated=EVALUATED)
    return compare_tensors(folder, changed, NAMES, starts_shared=True)


def observe_stranger(script: Path, folder: Path, start: Path | None = None) -> None:
    """Observe a script of the stranger's trainer into a new folder. start: as for `observe_arm`."""
    (folder / "run").mkdir(parents=True)
    own = prepare_recorder(
        folder, {}, observe=True, evaluated=EVALUATED, start=str(start) if start else None, root=str(script.parent),
        cycles=script.stem != "train",
    )  # fmt: skip
    with (folder / LOG).open("w") as log:
        argv = [sys.executable, str(script), "--steps=10", "--lr=0.01", f"--out={folder / 'run'}"]
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", **own}
        subprocess.run(argv, env=environment, stdout=log, stderr=log, check=False)


def names_line(change: PlantedChange, found: TensorComparison, tree: Path) -> bool:
    """Whether the first root is at the line of the change, in the source of either arm. tree: the changed source."""
    if found.first is None:
        return False
    places = [(Path(found.first.path), found.first.line)]
    if found.first.candidate_place:
        there, _, _ = found.first.candidate_place.partition(" ")
        file, _, line = there.rpartition(":")
        places.append((tree / file, int(line)))
    if found.first.called_at:
        file, _, line = found.first.called_at.partition(" ")[0].rpartition(":")
        folders = (tree, STRANGER if change.script else ROOT)
        places += [(folder / file, int(line)) for folder in folders if (folder / file).exists()]
    read = ((file.read_text(encoding="utf-8").splitlines(), line) for file, line in places)
    return any(change.line in text for lines, line in read for text in lines[line - 1 : line])


def main() -> int:
    """The command line."""
    words = sys.argv[1:]
    print(describe_machine() + "\n\n| change | case | right line | roots | first |\n|---|---|---|--:|---|")
    figures, missed = [], 0
    with tempfile.TemporaryDirectory(prefix="maxview-roots-") as folder:
        for what, changes in (("planted changes", PLANTED), ("changes of reported kinds", REPORTED)):
            chosen = [change for change in changes if not words or any(word in change.name for word in words)]
            right = sum(show_change(change, Path(folder)) for change in chosen)
            figures.append(f"{what}: {right} of {len(chosen)} lines are named first")
            missed += len(chosen) - right
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print("\n" + "\n".join([*figures, f"{spent.ru_utime / 60:.1f} CPU-minutes"]))
    return 1 if missed else 0


def show_change(change: PlantedChange, folder: Path) -> bool:
    """Print the row of a change; return whether its line is named first. folder: for the observations."""
    tree = folder / "trees" / str((*PLANTED, *REPORTED).index(change))
    found = find_roots(change, folder, tree)
    right = names_line(change, found, tree)
    row = (change.name, change.case, "yes" if right else "**no**", len(found.roots), found.sentence)
    print("| " + " | ".join(str(one).replace("|", "/") for one in row) + " |", flush=True)
    return right


if __name__ == "__main__":
    sys.exit(main())
