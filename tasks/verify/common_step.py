"""Compares the checkpoints of two arms at their last common step."""

from collections.abc import Sequence
from pathlib import Path

from etils import epath

from tasks.records import CheckpointDifference, CheckpointProof, RunRecord
from tasks.store import Store
from tasks.verify.against import compare_checkpoints
from tasks.verify.layout import CheckpointError
from tasks.verify.verification import Progress

type Saved = tuple[RunRecord, CheckpointProof]


def find_common(runs: Sequence[RunRecord]) -> tuple[Saved, Saved] | None:
    """Return each arm's first run with its proof of the last step that both verified; None without such a step."""
    first: dict[str, RunRecord] = {}
    for run in runs:
        first.setdefault(run.arm, run)
    if len(first) != 2:
        return None
    one, other = first.values()
    left, right = ({proof.step: proof for proof in run.proofs if proof.ok} for run in (one, other))
    common = [step for step in left.keys() & right.keys() if step is not None]
    if not common:
        return None
    return (one, left[max(common)]), (other, right[max(common)])


def compare_arms(
    runs: Sequence[RunRecord],
    store: Store,
    *,
    known: CheckpointDifference | None = None,
    on_progress: Progress | None = None,
) -> CheckpointDifference | None:
    """Return the difference of the checkpoints that `find_common` returns; None if it returns None.

    known: an earlier result, returned if it is of the same two saves. Checkpoints that cannot be compared, e.g. of
    different models, yield a result with a `problem`.
    """
    sides = find_common(runs)
    if sides is None:
        return None
    proofs = [proof for _, proof in sides]
    committed = (proofs[0].committed_at, proofs[1].committed_at)
    paths = [find_saved(run, proof, store) for run, proof in sides]
    names = (str(paths[0]), str(paths[1]))
    if known is not None and (known.path, known.other_path) == names and known.committed == committed:
        return known
    try:
        return compare_checkpoints(*paths, on_progress=on_progress)
    except CheckpointError as error:
        return CheckpointDifference(
            step=proofs[0].step, path=names[0], other_path=names[1], committed=committed, problem=str(error)
        )


def find_saved(run: RunRecord, proof: CheckpointProof, store: Store) -> epath.Path:
    """Return the current path of a verified checkpoint: the recorded path if it exists, else in this store."""
    place = epath.Path(proof.path)
    if "://" in proof.path or place.exists() or run.plan is None or run.plan.files.checkpoints is None:
        return place
    directory = store.run(run.plan.run_name)
    here = epath.Path(Path(directory.path, run.plan.files.checkpoints, place.name))
    if here.exists() or directory.mirror is None:
        return here
    return epath.Path(
        directory.mirror.files.url(f"runs/{directory.run_name}/{run.plan.files.checkpoints}/{place.name}")
    )
