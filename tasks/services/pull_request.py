"""Writes a Markdown text as a comment on a GitHub pull request, and updates that comment later.

The first line of the comment is a mark `<!-- … -->`, to find the comment again. In GitHub's REST API, a pull
request's comments belong to the issue of the same number:
https://docs.github.com/en/rest/issues/comments
"""

import re
from collections.abc import Iterator
from typing import Any

import httpx

from configs.frozen import Frozen

API = "https://api.github.com"
VERSION = "2022-11-28"  # of the API
TIMEOUT_S = 30  # per request
PER_PAGE = 100  # comments per request
MAX_COMMENT_LENGTH = 65_000  # characters; GitHub's limit is 65,536
CUT = "\n\n… cut off here: the whole of it is in the store.\n"

_OWNER = r"[A-Za-z0-9][A-Za-z0-9-]{0,99}"
_NAME = r"(?!\.{1,2}[#/])[A-Za-z0-9._-]{1,100}"
_PLACE = re.compile(
    rf"(?:https://[^/\s]+/)?(?P<owner>{_OWNER})/(?P<name>{_NAME})(?:#|/pull/|/issues/)(?P<number>[0-9]{{1,9}})"
)


class CommentError(ValueError):
    """The comment cannot be written, or its pull request is invalid; the message has a remedy, but never the token."""


class PullRequest(Frozen):
    """A pull request or an issue on GitHub: owner/name#number."""

    owner: str
    name: str
    number: int


def parse_pull_request(text: str) -> PullRequest:
    """Return the pull request or issue that `owner/name#12` or its web address names. Raises CommentError."""
    match = _PLACE.fullmatch(text)
    if match is None:
        raise CommentError(f"{text!r} is no pull request: give owner/name#12, or its address (https://…/pull/12)")
    return PullRequest(owner=match["owner"], name=match["name"], number=int(match["number"]))


def put_comment(place: PullRequest, body: str, *, token: str, api: str = API) -> str:
    """Replace the comment that has the same mark (first line) as `body`; create a comment if there is none.

    Truncates a longer `body` to MAX_COMMENT_LENGTH. Does not write if the comment is equal already. Returns the
    comment's address. Raises CommentError, httpx.TransportError if GitHub cannot be reached (the caller may retry), and
    ValueError if `body` has no mark.
    """
    mark = body.partition("\n")[0]
    if not re.fullmatch(r"<!-- .+ -->", mark):
        raise ValueError(f"a comment begins with its mark, this one with {mark!r:.60}")
    text = body if len(body) <= MAX_COMMENT_LENGTH else body[: MAX_COMMENT_LENGTH - len(CUT)].rpartition("\n")[0] + CUT
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {token}",
        "X-GitHub-Api-Version": VERSION,
        "User-Agent": "maxview",
    }
    with httpx.Client(base_url=api.rstrip("/"), headers=headers, timeout=TIMEOUT_S) as client:
        folder = f"/repos/{place.owner}/{place.name}/issues"
        for comment in _list(client, f"{folder}/{place.number}/comments"):
            if _first_line(comment) != mark:  # a reply may quote the mark in a later line
                continue
            if comment["body"].replace("\r\n", "\n") == text:
                return str(comment["html_url"])
            answer = client.patch(f"{folder}/comments/{int(comment['id'])}", json={"body": text})
            return str(_read(answer)["html_url"])
        return str(_read(client.post(f"{folder}/{place.number}/comments", json={"body": text}))["html_url"])


def _first_line(comment: dict[str, Any]) -> str:
    return (comment.get("body") or "").partition("\n")[0].rstrip("\r")


def _list(client: httpx.Client, path: str) -> Iterator[dict[str, Any]]:
    """Yield every comment, oldest first; requests one page at a time."""
    url: str | None = f"{path}?per_page={PER_PAGE}"
    while url:
        answer = client.get(url)
        yield from _read(answer)
        url = answer.links.get("next", {}).get("url")
        if url and httpx.URL(url).host != client.base_url.host:
            raise CommentError(f"GitHub's next page is at {httpx.URL(url).host}, not at {client.base_url.host}")


def _read(answer: httpx.Response) -> Any:
    if answer.is_success:
        return answer.json()
    remedy = {
        401: "the token is not valid any more: make a new one",
        403: "the token may not comment there, or GitHub's limit is reached: give it `pull requests: write`",
        404: "there is no such pull request, or the token does not see it: check owner/name#number and the token",
        410: "issues are turned off there",
    }.get(answer.status_code, "try again")
    try:
        said = str(answer.json().get("message", ""))
    except (ValueError, AttributeError):
        said = ""
    path = answer.request.url.path
    raise CommentError(f"{answer.request.method} {path}: {answer.status_code} {said}; {remedy}")
