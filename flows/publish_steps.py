"""The steps that publish comparisons, as Prefect tasks: comparisons → pages, artifacts, a comment on a pull request."""

import os
from collections.abc import Sequence
from typing import cast

from prefect import task
from prefect.blocks.system import Secret
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from flows.step_parts import IO, show_text
from tasks.publish.content.page_address import PublishedPage, find_page
from tasks.publish.markdown.artifacts import show_code, summary_description
from tasks.publish.markdown.comment import tell_comparisons
from tasks.publish.site.comparison_pages import publish_comparison
from tasks.records.compared_case import ComparisonRecord
from tasks.records.run import RunRecord
from tasks.services.events import EVENTS, Compared
from tasks.services.pull_request import API, CommentError, parse_pull_request, put_comment
from tasks.store.store import Store

TOKENS = ("MAXVIEW_GITHUB_TOKEN", "GITHUB_TOKEN")  # variables with GitHub's token; the first one set is used
TOKEN_BLOCK = "maxview-github-token"  # name of a Prefect Secret block with the token


@task(name="publish", task_run_name="publish {comparison.case}", **IO)
def publish_step(comparison: ComparisonRecord, store: Store, runs: Sequence[RunRecord] = ()) -> PublishedPage:
    """Publish a comparison as its page and its rows of the history; return the page.

    runs: the comparison's runs that are in memory; missing ones are read from the store.
    """
    # Without PREFECT_API_URL the page has no link to the flow run: an embedded server has no user interface.
    address = flow_run.ui_url if os.environ.get("PREFECT_API_URL") else None
    return find_page(publish_comparison(comparison, store, runs, flow_run=address or ""), store)


def publish_case(
    result: ComparisonRecord, store: Store, runs: Sequence[RunRecord] = ()
) -> tuple[ComparisonRecord, PublishedPage]:
    """Publish a case's comparison, emit the event Compared, and return the comparison and its page."""
    page = publish_step(result, store, runs)
    EVENTS.put(Compared(result, page, str(flow_run.id)))
    return result, page


def show_verdict(compared: Sequence[tuple[ComparisonRecord, PublishedPage]], *name: str) -> None:
    """Create the flow run's Prefect artifact: verdict and page of its comparisons, the worst first.

    No task, so that it is an artifact of the flow run. name: of the comparison; a single case is added to the key.
    """
    (record, _), *more = compared
    key = name if more else (*name, record.case)
    told = f"{len(compared)} cases" if more else summary_description(record)
    places = [f"page: {show_code(page.address)}" for _, page in compared if not page.is_served]
    show_text(key, "\n\n".join([tell_comparisons(compared, name[0]).rstrip("\n"), *places]), told)


@task(name="comment", task_run_name="comment on {place}", **IO)
def comment_step(body: str, place: str) -> str:
    """Create or update maxview's comment on the pull request `place`; return the comment's address."""
    address = put_comment(
        parse_pull_request(place), body, token=_find_token(), api=os.environ.get("GITHUB_API_URL") or API
    )
    get_run_logger().info("%s", address)
    return address


def _find_token() -> str:
    """Return GitHub's token from the environment or a Prefect block; Prefect would store it if it were a parameter.

    Raises CommentError if there is no token.
    """
    token = next((os.environ[name] for name in TOKENS if os.environ.get(name)), None)
    if token is not None:
        return token
    try:
        block = cast(Secret[str], Secret.load(TOKEN_BLOCK))
    except ValueError as error:
        raise CommentError(
            f"no token for GitHub: set {TOKENS[0]}, or create a Secret block named {TOKEN_BLOCK}"
        ) from error
    return str(block.get())
