"""The command `maxview verify`: verifies checkpoints or compares two of them, prints, and returns the exit status."""

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from flows.cli.commands.common_options import Json

if TYPE_CHECKING:
    from tasks.records.checkpoint_proof import CheckpointProof


def verify(
    checkpoints: list[str],
    /,
    *,
    deep: Annotated[bool, Parameter(help="Decode every chunk and look for NaN and infinities.", negative="")] = False,
    record: Annotated[bool, Parameter(help="Write a crc32c manifest of each sound checkpoint.", negative="")] = False,
    check: Annotated[bool, Parameter(help="Compare with the manifest that was recorded.", negative="")] = False,
    against: Annotated[
        str | None, Parameter(help="Another checkpoint or run: compare trees, dtypes, layouts and all values.")
    ] = None,
    restored_by: Annotated[
        str | None,
        Parameter(
            help="The folder of a run of maxview, or -- and a command: start it again, and compare the first state of "
            "its step with the checkpoint."
        ),
    ] = None,
    json_: Json = False,
) -> int:
    """Verify that checkpoints exist and are complete. Give the folder of a step, of checkpoints, or of a run.

    Exit status 0: every checkpoint is sound, or its manager has deleted it; 1: one is damaged, or a save of the run was
    not finished; 2: one is missing or not committed, or lacks the manifest that --check needs; 3: one is of another
    format, and not proved.

    With --against, compare the two given steps, or the last step that both runs have. Arrays are paired by path, also
    between Linen and NNX trees and between scanned and unrolled layers. Exit status 0: equal bit for bit; 1: different,
    or one run lacks a later step that the other has, or did not finish its save; the step is named.

    With --restored-by, what became of each saved array. Exit status 0: all are as saved; 1: one is not; 3: the run did
    not come to its first step.
    """
    if restored_by is not None:
        if len(checkpoints) != 1 or record or check or deep or against is not None:
            raise ValueError("--restored-by takes one checkpoint, and neither --record, --check, --deep nor --against")
        return _compare_restored(checkpoints[0], restored_by, as_json=json_)
    if against is not None:
        if len(checkpoints) != 1 or record or check or deep:
            raise ValueError("--against takes one checkpoint or run, and neither --record, --check nor --deep")
        return _compare(checkpoints[0], against, as_json=json_)
    from flows.cli.byte_progress import byte_progress, open_stderr
    from tasks.publish.terminal.checkpoint_report import show_proofs
    from tasks.verify.layout import TMP_MARK
    from tasks.verify.verification import verify_checkpoints

    if record and check:
        raise ValueError("--record and --check exclude each other: record a manifest once, then check against it")
    mode: Literal["record", "check", "none"] = "record" if record else "check" if check else "none"
    proofs: list[CheckpointProof] = []
    wrong: list[str] = []
    with byte_progress(open_stderr()) as progress:
        for path in checkpoints:
            try:
                for proof in verify_checkpoints(path, mode=mode, deep=deep, on_progress=progress):
                    proofs.append(proof)  # shown even if the bucket becomes unreachable later
            except ValueError as error:  # the other checkpoints are verified nevertheless
                wrong.append(str(error))
    if proofs or not wrong:
        show_proofs(proofs, as_json=json_)
    if wrong:
        raise ValueError("\n".join(wrong))
    given = {path.rstrip("/") for path in checkpoints}
    if any(_is_wrong_input(proof) for proof in proofs if TMP_MARK not in proof.path or proof.path in given):
        return 2
    proved = [proof for proof in proofs if not proof.is_only_counted]
    if not all(proof.ok or proof.retired for proof in proved):
        return 1
    return 0 if len(proved) == len(proofs) else 3


def _compare(checkpoint: str, other: str, *, as_json: bool) -> int:
    from flows.cli.byte_progress import byte_progress, open_stderr
    from tasks.publish.terminal.checkpoint_report import print_difference
    from tasks.verify.compare_checkpoints import compare_checkpoints

    with byte_progress(open_stderr()) as progress:
        found = compare_checkpoints(checkpoint, other, on_progress=progress)
    print_difference(found, as_json=as_json)
    return 0 if found.equal and not found.lacking else 1


def _compare_restored(checkpoint: str, run: str, *, as_json: bool) -> int:
    from tasks.experiments.restored_checkpoint import compare_run_with_checkpoint
    from tasks.publish.terminal.checkpoint_report import print_restored

    found = compare_run_with_checkpoint(checkpoint, run)
    print_restored(found, as_json=as_json)
    return {True: 0, False: 1, None: 3}[found.holds]


def _is_wrong_input(proof: "CheckpointProof") -> bool:
    """Return whether a checkpoint is missing or not soundly committed, or lacks the manifest that --check needs."""
    checks = {problem.check for problem in proof.problems}
    return "commit" in checks or ("manifest" in checks and proof.manifest is None)
