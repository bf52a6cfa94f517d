"""The steps of the flow `verify` as Prefect tasks: places → checkpoints → proofs → artifacts."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from prefect import task
from prefect.artifacts import create_table_artifact
from prefect.logging import get_run_logger

from flows.step_parts import IO, show_text
from tasks.publish.markdown.proofs import proof_rows, proofs_headline, proofs_markdown
from tasks.records.checkpoint_proof import CheckpointProof
from tasks.services.outage import outlast
from tasks.verify.steps_to_prove import find_steps_since, prove


@task(name="find checkpoints", **IO)
def find_checkpoints_step(places: Sequence[str], hours: float | None) -> list[str]:
    """Return the paths of the checkpoints in `places` saved in the last `hours`; all if `hours` is None or 0.

    Includes checkpoints without a date.
    """
    paths = find_steps_since(places, since=datetime.now(UTC) - timedelta(hours=hours) if hours else None)
    get_run_logger().info("%s checkpoints to prove", len(paths))
    return paths


@task(name="prove", task_run_name="prove {path}", **IO)
def prove_step(path: str, deep: bool, again_after_h: float) -> CheckpointProof:
    """Verify one checkpoint and return the result, its proof. Stores the proof of a sound checkpoint.

    Reuses a stored proof of the same save if it is younger than `again_after_h` hours and, with `deep`, checked all
    values.
    """
    proof = prove(path, deep=deep, again_after=timedelta(hours=again_after_h))
    for problem in proof.problems:
        get_run_logger().error("%s: %s: %s: %s", path, problem.check, problem.path, problem.message)
    return proof


@task(name="publish proofs", **IO)
def publish_proofs_step(proofs: Sequence[CheckpointProof]) -> None:
    """Publish a summary and a table of all checkpoints, problems first, as Prefect artifacts."""
    rows = proof_rows(proofs)
    show_text(["verify"], proofs_markdown(proofs), proofs_headline(proofs))
    outlast(lambda: create_table_artifact(key="verify-rows", table=rows, description="Every checkpoint"))
