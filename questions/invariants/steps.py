"""The steps of the flow `invariants` as Prefect tasks: evaluate a trainer's twins, and publish the answers."""

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from flows.step_parts import IO, show_text
from questions.invariants.describe_invariants import describe_markdown
from questions.invariants.invariants_options import InvariantsOptions
from questions.invariants.make_record import make_record
from questions.invariants.page import publish_invariants
from questions.invariants.twin_files import load_twins
from questions.invariants.twin_records import InvariantsRecord
from tasks.publish.content.page_address import PublishedPage, find_page
from tasks.publish.markdown.night import MARKER
from tasks.store.store import Store


@task(name="evaluate the twins", cache_policy=NO_CACHE)
def evaluate_twins_step(options: InvariantsOptions, store: Store) -> InvariantsRecord:
    """Return the answers. The recordings are kept in the store's folder: a retry records only what is missing."""
    say = get_run_logger().info
    twins = load_twins(options.twins)
    return make_record(options, twins, store.path, lambda text: say("%s", text))


@task(name="publish the invariants", **IO)
def publish_invariants_step(record: InvariantsRecord, store: Store) -> tuple[InvariantsRecord, PublishedPage]:
    """Write record and page into the store, and show the matrix in Prefect; return the record with its history."""
    record, path = publish_invariants(record, store)
    page = find_page(path, store)
    name = ("invariants", record.trainer)
    show_text(name, describe_markdown(record, page.shown), record.headline)
    return record, page


def comment_of_matrix(record: InvariantsRecord, page: PublishedPage) -> str:
    """Return the comment on a pull request. It begins with a hidden marker, so that it is updated next time."""
    return f"{MARKER.format(f'invariants {record.trainer}')}\n{describe_markdown(record, page.shown)}"
