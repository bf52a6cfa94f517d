"""The steps of the flow `nightly` as Prefect tasks: plan the night, record it, publish it, send its changes."""

from datetime import UTC, datetime

from prefect import task
from prefect.events import emit_event

from configs.extensions import find_functions
from flows.step_parts import IO, show_text
from questions.nightly.plan_night import plan_night
from tasks.diff.judge.compare_nights import finish_night
from tasks.publish.markdown.night import CHANGED_EVENT, comment_markdown, night_headline, night_markdown, night_message
from tasks.publish.site.index_page import publish_night
from tasks.records.night import NightPlan, NightRecord
from tasks.resolve.options import NightOptions
from tasks.store.store import Store


@task(name="plan the night", task_run_name="plan the night", **IO)
def plan_night_step(request: NightOptions, store: Store, scheduled: datetime | None) -> NightPlan:
    """Return the plan of the day's unfinished night of this request, else of a new night. scheduled: None means now.

    With `request.fresh`, the night is always new. The day is in UTC.
    """
    return plan_night(request, store, day=(scheduled or datetime.now(UTC)).astimezone(UTC).date())


finish_night_step = task(name="finish the night", task_run_name="finish the night {plan.id}", **IO)(finish_night)


@task(name="publish the night", task_run_name="publish the night {record.plan.id}", **IO)
def publish_night_step(record: NightRecord, store: Store) -> None:
    """Publish the night's summary: a Prefect artifact, the text of a comment in the store, and the store's index.

    Then the extensions act: the history is compacted, because each comparison of the next night reads it.
    """
    for act in find_functions("after_night"):
        act(store)
    store.files.write(f"nightly/{record.plan.id}/comment.md", comment_markdown(record).encode())
    publish_night(store, record)
    show_text(["nightly"], night_markdown(record), night_headline(record))


@task(name="tell what changed", task_run_name="tell what changed", **IO)
def notify_night_step(record: NightRecord, store: Store) -> None:
    """Emit an event with the night's changes, if any. A Prefect automation may send their text as a message."""
    text = night_message(record)
    if text:
        resource = {"prefect.resource.id": f"maxview.nightly.{record.plan.id}", "prefect.resource.name": "nightly"}
        emit_event(CHANGED_EVENT, resource=resource, payload={"text": text})
