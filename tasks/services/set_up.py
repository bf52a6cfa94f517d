"""Configures a Prefect server: work pool, a concurrency limit per target, automations for crashes and notifications.

A target is a place to run. Its concurrency limit is the number of its slices: groups of connected TPU chips, each for
one run at a time.
"""

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

from configs.names import list_names
from configs.nightly import load_nightly
from configs.questions import load_questions
from tasks.publish.markdown.night import CHANGED_EVENT
from tasks.services.flow_runs import HEARTBEAT
from tasks.services.slices import limit_name

AT_ONCE = 4  # limit of concurrent flow runs in the work pool
ZOMBIE_AFTER_S = 90  # without a heartbeat, a flow run is marked as Crashed; three intervals between heartbeats
WEBHOOK_BLOCK = "maxview-notify"  # name of the Prefect block with the address for messages
# names of the automations
ZOMBIE_AUTOMATION = "maxview: end runs that have lost their process"
REAP_AUTOMATION = "maxview: end the jobs of crashed runs"
NOTIFY_AUTOMATION = "maxview: tell what changed overnight"
REAP_DEPLOYMENT = "reap/jobs"  # the deployment that the automation REAP_AUTOMATION runs
# states after which a flow run sends no heartbeats
SILENT_STATES = ("Completed", "Failed", "Cancelled", "Crashed", "Paused", "Suspended")


def set_up(pool: str, say: Callable[[str], None]) -> None:
    """Create or update the work pool and the concurrency limit of every target.

    An existing pool keeps its type; a new pool runs flows as processes.
    """
    with get_client(sync_client=True) as client:
        ensure_pool(client, pool)
        say(f"work pool: {pool}")
        nightly = load_nightly()
        for target in list_names("targets"):
            client.upsert_global_concurrency_limit_by_name(limit_name(target), nightly.slices_of(target))
        say(f"limits: {', '.join(f'{target} {nightly.slices_of(target)}' for target in list_names('targets'))}")


def set_up_automations(say: Callable[[str], None], *, webhook: str | None) -> None:
    """Create or update the automations. The deployments must exist.

    webhook: address for messages. If it is None or empty, no notification automation is created; an existing one stays
    and keeps sending messages.
    """
    with get_client(sync_client=True) as client:
        ensure_automation(client, zombie_automation())
        ensure_automation(client, reap_automation(client.read_deployment_by_name(REAP_DEPLOYMENT).id))
        if webhook:
            ensure_automation(client, notify_automation(ensure_webhook(webhook)))
    notified = ", notification" if webhook else " (MAXVIEW_WEBHOOK_URL adds a notification)"
    say(f"automations: zombies, jobs of crashed runs{notified}")


def ensure_pool(client: SyncPrefectClient, name: str) -> None:
    """Create a process pool of this name, or update the existing pool's limit."""
    try:
        client.read_work_pool(name)
    except ObjectNotFound:
        template = ProcessWorker.get_default_base_job_template()
        client.create_work_pool(
            WorkPoolCreate(name=name, type="process", base_job_template=template, concurrency_limit=AT_ONCE)
        )
    else:
        client.update_work_pool(name, WorkPoolUpdate(concurrency_limit=AT_ONCE))


def ensure_automation(client: SyncPrefectClient, automation: AutomationCore) -> None:
    """Create or update the automation, and delete others of the same name."""
    existing = client.read_automations_by_name(automation.name)
    if not existing:
        client.create_automation(automation)
        return
    client.update_automation(existing[0].id, automation)
    for double in existing[1:]:
        client.delete_automation(double.id)


def ensure_webhook(url: str) -> UUID:
    """Save the address, which is a secret, in a Prefect block; return the block's id."""
    headers = SecretDict({"Content-Type": "application/json"})  # Prefect sets none if the payload is a text
    saved = Webhook(method="POST", url=SecretStr(url), headers=headers).save(WEBHOOK_BLOCK, overwrite=True)
    assert isinstance(saved, UUID)  # Prefect returns a coroutine only inside an event loop
    return saved


def zombie_automation() -> AutomationCore:
    """Return the automation that marks a flow run as Crashed if its heartbeats stop outside SILENT_STATES."""
    return AutomationCore(
        name=ZOMBIE_AUTOMATION,
        description="Marks a flow run as crashed if neither its process nor a worker is left to do so.",
        trigger=EventTrigger(
            after={HEARTBEAT},
            expect={HEARTBEAT, *(f"prefect.flow-run.{state}" for state in SILENT_STATES)},
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
                message=f"no heartbeat for {ZOMBIE_AFTER_S} s: its process is gone; repeat the run to continue",
            )
        ],
    )


def reap_automation(deployment: UUID) -> AutomationCore:
    """Return the automation that runs `reap/jobs` after a crash of a flow that launches jobs.

    `reap/jobs` ends the jobs of crashed flow runs. deployment: the id of `reap/jobs`.
    """
    owners = ["compare", *(name for name, question in load_questions().items() if question.launches_jobs)]
    return AutomationCore(
        name=REAP_AUTOMATION,
        description="Ends the jobs that a crashed flow run left behind.",
        trigger=EventTrigger(
            expect={"prefect.flow-run.Crashed"},
            # not `reap`: a crash of `reap` would start `reap` again and again
            match_related={"prefect.resource.role": "flow", "prefect.resource.name": sorted(owners)},
            posture=Posture.Reactive,
            threshold=1,
            within=timedelta(seconds=10),
        ),
        actions=[RunDeployment(deployment_id=deployment)],
    )


def notify_automation(webhook: UUID) -> AutomationCore:
    """Return the automation that sends a Slack message after each CHANGED_EVENT.

    The flow `nightly` emits the event if the night's record lists changes. webhook: id of the Prefect block.
    """
    return AutomationCore(
        name=NOTIFY_AUTOMATION,
        description="Sent once per night with a changed verdict.",
        trigger=EventTrigger(
            expect={CHANGED_EVENT}, posture=Posture.Reactive, threshold=1, within=timedelta(seconds=0)
        ),
        actions=[CallWebhook(block_document_id=webhook, payload='{"text": {{ event.payload.text | tojson }}}')],
    )
