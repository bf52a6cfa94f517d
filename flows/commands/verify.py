"""`maxview verify`: checkpoints to proofs."""

from typing import Annotated, Literal

from cyclopts import Parameter
from rich.console import Console

from flows.commands.options import Json


def verify(
    checkpoints: list[str],
    /,
    *,
    deep: Annotated[bool, Parameter(help="Decode every chunk and look for NaN and infinities.", negative="")] = False,
    record: Annotated[bool, Parameter(help="Write a crc32c manifest of each sound checkpoint.", negative="")] = False,
    check: Annotated[bool, Parameter(help="Compare with the manifest that was recorded.", negative="")] = False,
    json_: Json = False,
) -> int:
    """Prove that checkpoints are really there: a step's folder, a checkpoints folder, or a run's folder."""
    from flows.show import show_proofs
    from flows.terminal import byte_progress
    from tasks.records import CheckpointProof
    from tasks.verify import verify_checkpoints

    if record and check:
        raise ValueError("--record and --check exclude each other: record a manifest once, then check against it")
    mode: Literal["record", "check", "none"] = "record" if record else "check" if check else "none"
    proofs: list[CheckpointProof] = []
    with byte_progress(Console(stderr=True)) as progress:
        for path in checkpoints:
            proofs += verify_checkpoints(path, mode=mode, deep=deep, on_progress=progress)
    show_proofs(proofs, as_json=json_)
    if any(problem.check == "commit" for proof in proofs for problem in proof.problems):
        return 2  # what was named is no committed checkpoint; damage to one that is gives 1
    return 0 if all(proof.ok for proof in proofs) else 1
