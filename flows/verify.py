"""The flow `verify`: find the checkpoints in stores, runs or buckets → prove each → publish the proofs.

A proof is the result of verifying one checkpoint.
"""

from typing import Annotated, Any, cast

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State
from prefect.futures import PrefectFuture
from prefect.runtime import flow_run
from prefect.states import Completed, Failed
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from flows.verify_steps import find_checkpoints_step, prove_step, publish_proofs_step
from tasks.publish.markdown.proofs import list_wrong, proofs_headline
from tasks.resolve.form_fields import doc, or_empty
from tasks.services.flow_names import show_name, unless_named

# Two checkpoints at once, each read by two threads, saturate most disks and network links.
TWO_AT_ONCE = cast("TaskRunner[PrefectFuture[Any]]", ThreadPoolTaskRunner(max_workers=2))


@unless_named
def name_run() -> str:
    """Return the flow run's name: the places that are searched for checkpoints."""
    return show_name(", ".join(map(str, flow_run.parameters["places"])))


@flow(
    name="verify",
    flow_run_name=name_run,
    description="Prove the checkpoints of a store, a bucket or a run, and record their content.",
    task_runner=TWO_AT_ONCE,
)
def verify(
    places: Annotated[list[str], doc("Stores, runs or steps: folders or gs://bucket/prefix")],
    hours: Annotated[
        float | None,
        doc(
            "Only what was committed within the last hours; empty: everything",
            **or_empty({"type": "number", "exclusiveMinimum": 0}),
        ),
    ] = None,
    deep: Annotated[bool, doc("Decode every chunk and look for NaN and infinities")] = False,
    again_after_h: Annotated[
        float, doc("A step that was proved within the last hours is not read again", minimum=0)
    ] = 12.0,
) -> State[Any]:
    """Prove the checkpoints. A failed proof does not stop the flow, but makes its final state Failed."""
    paths = find_checkpoints_step(places, hours)
    futures = [prove_step.submit(path, deep, again_after_h) for path in paths]
    proofs = [future.result() for future in futures]
    publish_proofs_step(proofs)
    headline = proofs_headline(proofs)
    get_run_logger().info("%s", headline)
    return Failed(name="Damaged", message=headline) if list_wrong(proofs) else Completed(name="Sound", message=headline)
