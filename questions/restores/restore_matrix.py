"""Runs each version of a trainer, starts each version again where each one saved, and compares what was restored."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from configs.errors import ConfigError
from configs.frozen import Frozen
from configs.trainers import find_kind
from questions.restores.restores_options import RestoresOptions
from tasks.experiments.witness_states import WitnessedRun, compare_again, witness_restoring, witness_saving
from tasks.records.plan import ArmOverrides, RunPlan
from tasks.records.restored import Restored
from tasks.records.text import counted
from tasks.resolve.plans import Request, resolve

FOLDER = "restores"  # in the store
AT_ONCE = 2  # runs at the same time
# an evaluation or a restore between two steps is another question
OWN = ("enable_checkpointing=true", "resume_after_step=-1", "eval_interval=-1")


class RestoreCell(Frozen):
    """What one version restored of another version's checkpoint."""

    written_by: str
    read_by: str
    restored: Restored

    @property
    def mark(self) -> str:
        """✓ as saved, ✗ not as saved, – nothing was compared."""
        return {True: "✓", False: "✗", None: "–"}[self.restored.holds]


class RestoreMatrix(Frozen):
    """All pairs of versions."""

    comparison: str
    case: str
    versions: tuple[str, ...]
    folder: str
    cells: tuple[RestoreCell, ...]

    @property
    def exit_status(self) -> int:
        """1: something was not restored as saved; 3: a version's own checkpoint was not compared; else 0."""
        if any(cell.restored.holds is False for cell in self.cells):
            return 1
        return 3 if any(cell.restored.holds is None for cell in self.cells if cell.written_by == cell.read_by) else 0


def plan_versions(name: str, options: RestoresOptions) -> list[tuple[str, RunPlan, RunPlan]]:
    """Return label, plan of the run that saves and plan of the run that restores, of each version. Raises ConfigError.

    Versions with equal plans are one.
    """
    found: dict[str, tuple[str, RunPlan, RunPlan]] = {}
    keys = [word.partition("=") for word in options.vary]
    if wrong := [word for word, (_, equals, _) in zip(options.vary, keys, strict=True) if not equals]:
        raise ConfigError([f"--vary {wrong[0]}: write key=value,value"])
    values = [[f"{key}={one}" for one in given.split(",")] for key, _, given in keys]
    for variant in product(*values):
        first, again = (_resolve(name, options, variant, steps) for steps in (options.steps, 2 * options.steps))
        for saves, restores in zip(first, again, strict=True):
            label = " ".join((_label(saves), *variant))
            found.setdefault(saves.identity, (label, saves, restores))
    return list(found.values())


def _label(plan: RunPlan) -> str:
    return f"{plan.arm} ({plan.version.short})" if plan.version is not None else plan.arm


def _resolve(name: str, options: RestoresOptions, variant: Sequence[str], steps: int) -> list[RunPlan]:
    """Return the plans of the runs of both arms, for processors."""
    from configs.comparison import load_comparison

    own = () if find_kind(load_comparison(name).trainer).takes_command else OWN
    request = Request(
        comparison=name,
        cases=options.cases[:1],
        target=options.target or None,
        model=options.model or None,
        repeats=1,
        overrides=(*own, *options.overrides, *variant, f"steps={steps}"),
        arms=ArmOverrides(
            baseline=options.baseline or None,
            branch=options.branch or None,
            repository=options.repository or None,
            software=options.software,
            one_is_enough=True,
        ),
    )
    plans = resolve(request, Path(options.out))
    return [plan for plan in plans if plan.case == plans[0].case]


def check_restores(
    name: str, options: RestoresOptions, store: Path, say: Callable[[str], object] = lambda _: None
) -> RestoreMatrix:
    """Run all versions and return the matrix. say: prints a line of progress. Raises ConfigError."""
    versions = plan_versions(name, options)
    case = versions[0][1].case
    root = store / FOLDER / f"{name}-{case}"
    if problem := next((plan.target for _, plan, _ in versions if plan.backend != "local"), None):
        raise ConfigError([f"restores runs on this machine, and {problem} is elsewhere: add --target cpu"])
    say(f"{counted(len(versions), 'version')} to save, {counted(len(versions) ** 2, 'run')} to restore")

    def save(number: int) -> WitnessedRun:
        plan = versions[number][1]
        return witness_saving(plan, root / str(number) / "saves", steps=plan.files.end_after)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        saved = list(pool.map(save, range(len(versions))))

        def restore(pair: tuple[int, int]) -> Restored:
            writer, reader = pair
            one = saved[writer]
            if one.problem:
                return compare_again(one, one)
            again = witness_restoring(versions[reader][2], root / str(reader) / f"restores-{writer}", one)
            own = saved[reader].states
            return compare_again(one, again, fresh=own[0] if own else None)

        pairs = list(product(range(len(versions)), repeat=2))
        found = list(pool.map(restore, pairs))
    labels = [label for label, _, _ in versions]
    cells = [
        RestoreCell(written_by=labels[writer], read_by=labels[reader], restored=restored)
        for (writer, reader), restored in zip(pairs, found, strict=True)
    ]
    return RestoreMatrix(comparison=name, case=case, versions=tuple(labels), folder=str(root), cells=tuple(cells))


def describe_matrix(matrix: RestoreMatrix, *, full: bool = False) -> list[str]:
    """Return the lines of the terminal: the matrix, then each cell; with `full` every array that is not equal."""
    width = max(map(len, matrix.versions))
    cells = {(cell.written_by, cell.read_by): cell for cell in matrix.cells}
    lines = []
    if len(matrix.versions) > 1:
        lines.append(f"{'written by':<{width}}   read by {' · '.join(matrix.versions)}")
        for writer in matrix.versions:
            marks = "   ".join(cells[writer, reader].mark for reader in matrix.versions)
            lines.append(f"{writer:<{width}}   {marks}")
    for cell in matrix.cells:
        who = cell.read_by if cell.read_by == cell.written_by else f"{cell.written_by}, read by {cell.read_by}"
        lines.append(f"{cell.mark} {who}: {cell.restored.summary}")
        if full:
            lines += [f"    {array}" for array in cell.restored.arrays if array.word != "equal"]
    return lines
