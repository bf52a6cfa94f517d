"""Turns an empty Prefect server into ours: work pool, limits of slices, notification, and an end for zombie runs."""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from prefect.blocks.fields import SecretDict
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.objects import StateType
from prefect.events.actions import CallWebhook, ChangeFlowRunState, RunDeployment
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectNotFound
from prefect.workers.process import ProcessWorker
from pydantic import SecretStr

from configs.comparison import list_names
from configs.nightly import load_nightly
from tasks.publish.nightly import CHANGED_EVENT
from tasks.services.flow_runs import HEARTBEAT
from tasks.services.slices import limit_name

ZOMBIE_AFTER_S = 90  # three heartbeats
WEBHOOK_BLOCK = "maxview-notify"
ZOMBIES = "maxview: end runs that have lost their process"
REAP = "maxview: end the jobs of crashed runs"
REAPER = "reap/jobs"
NOTIFY = "maxview: tell what changed overnight"
ENDS = ("Completed", "Failed", "Cancelled", "Crashed", "Paused", "Suspended")


def set_up(pool: str, say: Callable[[str], None], *, runs: int) -> None:
    """Create what deployments need, or correct it; a pool that exists keeps its type, a new one runs processes."""
    with get_client(sync_client=True) as client:
        ensure_pool(client, pool, runs)
        say(f"work pool: {pool}")
        nightly = load_nightly()
        for target in list_names("targets"):
            client.upsert_global_concurrency_limit_by_name(limit_name(target), nightly.slices_of(target))
        say(f"limits: {', '.join(f'{target} {nightly.slices_of(target)}' for target in list_names('targets'))}")


def set_up_automations(say: Callable[[str], None], *, webhook: str | None) -> None:
    """Create the automations, or correct them; the deployments are there."""
    with get_client(sync_client=True) as client:
        ensure_automation(client, zombie_automation())
        ensure_automation(client, reap_automation(client.read_deployment_by_name(REAPER).id))
        if webhook:
            ensure_automation(client, notify_automation(ensure_webhook(webhook)))
    notified = ", notification" if webhook else " (MAXVIEW_WEBHOOK_URL adds a notification)"
    say(f"automations: zombies, jobs of crashed runs{notified}")


def ensure_pool(client: SyncPrefectClient, name: str, runs: int) -> None:
    """A process pool of this name, or the pool that has it already, with the number of flow runs that it may run."""
    try:
        client.read_work_pool(name)
    except ObjectNotFound:
        template = ProcessWorker.get_default_base_job_template()
        client.create_work_pool(
            WorkPoolCreate(name=name, type="process", base_job_template=template, concurrency_limit=runs)
        )
    else:
        client.update_work_pool(name, WorkPoolUpdate(concurrency_limit=runs))


def ensure_automation(client: SyncPrefectClient, wanted: AutomationCore) -> None:
    """The automation as it should be, once."""
    found = client.read_automations_by_name(wanted.name)
    if not found:
        client.create_automation(wanted)
        return
    client.update_automation(found[0].id, wanted)
    for double in found[1:]:
        client.delete_automation(double.id)


def ensure_webhook(url: str) -> UUID:
    """The block that holds the address, which is a secret."""
    headers = SecretDict({"Content-Type": "application/json"})  # a template's text is sent without one
    saved = Webhook(method="POST", url=SecretStr(url), headers=headers).save(WEBHOOK_BLOCK, overwrite=True)
    assert isinstance(saved, UUID)  # a coroutine only inside an event loop
    return saved


def zombie_automation() -> AutomationCore:
    """A run whose heartbeats stop, and that has not ended, has lost its process: it is Crashed."""
    return AutomationCore(
        name=ZOMBIES,
        description="Neither the flow's process nor a worker is there to say so.",
        trigger=EventTrigger(
            after={HEARTBEAT},
            expect={HEARTBEAT, *(f"prefect.flow-run.{end}" for end in ENDS)},
            match={"prefect.resource.id": ["prefect.flow-run.*"]},
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(seconds=ZOMBIE_AFTER_S),
        ),
        actions=[
            ChangeFlowRunState(
                state=StateType.CRASHED,
                name="Crashed",
                message=f"no heartbeat for {ZOMBIE_AFTER_S} s: its process is gone; another run goes on from there",
            )
        ],
    )


def reap_automation(deployment: UUID) -> AutomationCore:
    """Where a run crashed and no worker saw it, nobody has ended its jobs."""
    return AutomationCore(
        name=REAP,
        description="The jobs of a run that lost its process and its worker.",
        trigger=EventTrigger(
            expect={"prefect.flow-run.Crashed"},
            # not those of `reap` itself, which would never end
            match_related={"prefect.resource.role": "flow", "prefect.resource.name": ["compare", "nightly"]},
            posture=Posture.Reactive,
            threshold=1,
            within=timedelta(seconds=10),
        ),
        actions=[RunDeployment(deployment_id=deployment)],
    )


def notify_automation(webhook: UUID) -> AutomationCore:
    """A message, shaped for Slack, when a night's verdicts are not those of the night before."""
    return AutomationCore(
        name=NOTIFY,
        description="Sent when a verdict has changed, never again for the same state of things.",
        trigger=EventTrigger(
            expect={CHANGED_EVENT}, posture=Posture.Reactive, threshold=1, within=timedelta(seconds=0)
        ),
        actions=[CallWebhook(block_document_id=webhook, payload='{"text": {{ event.payload.text | tojson }}}')],
    )
