"""Parts of the steps of all flows: options of retried steps, and artifacts that are shown in Prefect."""

from collections.abc import Sequence
from typing import TypedDict

from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE, CachePolicy

from tasks.publish.markdown.artifacts import show_code
from tasks.publish.markdown.elements import artifact_key
from tasks.services.outage import outlast


class IoOptions(TypedDict):
    """Options of Prefect's `task` for steps that are retried."""

    cache_policy: CachePolicy
    retries: int
    retry_delay_seconds: int


# For steps that read or write files or call servers.
IO: IoOptions = {"cache_policy": NO_CACHE, "retries": 2, "retry_delay_seconds": 2}


def show_text(name: Sequence[str], text: str, description: str, page: str = "") -> None:
    """Create a Prefect artifact with a Markdown text.

    name: the parts of its key. page: its link or path; empty: none.
    """
    if page:
        linked = f"[The page]({page})" if page.startswith(("http://", "https://")) else f"page: {show_code(page)}"
        text = f"{linked}\n\n{text}"
    outlast(lambda: create_markdown_artifact(key=artifact_key(*name), markdown=text, description=description))
