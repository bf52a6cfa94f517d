"""One comment of a pull request, created once and then updated, against a server with GitHub's REST API."""

import importlib.util
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tasks.services.pull_request import CommentError, PullRequest, parse_pull_request, put_comment
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

PLACE = PullRequest(owner="team", name="trainer", number=7)
MARK = "<!-- maxview:nightly -->"
TOKEN = "gh" + "p_not-a-real-one"  # in two pieces, so that no scanner reports it as a token
STAND_IN = Path(__file__).parents[2] / "standins" / "github.py"


@pytest.fixture
def github() -> Iterator[Any]:
    spec = importlib.util.spec_from_file_location("github_stand_in", STAND_IN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    server = module.make_server(TOKEN)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def put(github: Any, body: str, *, token: str = TOKEN, place: PullRequest = PLACE) -> str:
    return put_comment(place, body, token=token, api=f"http://127.0.0.1:{github.server_address[1]}/")


def test_a_comment_is_made_once_and_then_updated(github: Any) -> None:
    first = put(github, f"{MARK}\nbad night")
    assert first == "https://github.com/team/trainer/pull/7#issuecomment-1000"
    assert put(github, f"{MARK}\ngood night") == first
    assert [comment["body"] for comment in github.comments] == [f"{MARK}\r\ngood night"]
    seen = dict(github.seen)
    assert put(github, f"{MARK}\ngood night") == first  # no change: no notification
    assert github.seen == seen | {"GET": seen["GET"] + 1}
    assert put(github, "<!-- maxview:compare x -->\nanother") != first
    assert len(github.comments) == 2


def test_it_is_found_behind_hundreds_of_others_and_a_reply_is_not_taken_for_it(github: Any) -> None:
    github.comments += [{"id": n, "body": f"> {MARK}\n> bad night\n\nwhy?", "html_url": "x"} for n in range(240)]
    github.comments.insert(3, {"id": 500, "body": None, "html_url": "x"})
    address = put(github, f"{MARK}\nbad night")
    assert put(github, f"{MARK}\ngood night") == address
    assert github.seen == {"GET": 6, "POST": 1, "PATCH": 1}


def test_a_long_comment_is_cut_at_a_line(github: Any, wording: Wording) -> None:
    put(github, f"{MARK}\n" + "0123456789\n" * 9000)
    body = github.comments[0]["body"]
    assert len(body) <= 65_536
    *lines, blank, last = body.splitlines()
    assert (set(lines[1:]), blank) == ({"0123456789"}, "")
    wording("parts", last)
    with pytest.raises(ValueError, match="begins with its mark"):
        put(github, "no mark")


def test_refusals_contain_a_remedy_and_never_the_token(github: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(CommentError, match=r"401 Bad credentials; the token is not valid"):
        put(github, f"{MARK}\nx", token=TOKEN + "!")
    with pytest.raises(CommentError, match=r"issues/8/comments: 404 Not Found; "):
        put(github, f"{MARK}\nx", place=PullRequest(owner="team", name="trainer", number=8))
    put(github, f"{MARK}\nx")
    github.shutdown()
    github.server_close()
    with pytest.raises(httpx.TransportError) as raised:
        put(github, f"{MARK}\nx")
    assert TOKEN not in caplog.text + repr(raised.value)


@pytest.mark.parametrize("text", ["team/trainer#7", "https://github.com/team/trainer/pull/7", "team/trainer/issues/7"])
def test_a_pull_request_by_name_or_address(text: str) -> None:
    assert parse_pull_request(text) == PLACE


@pytest.mark.parametrize("text", ["", "trainer#7", "team/trainer", "team/trainer#x", "a/..#1", "a/b#1\n", "a/b/../c#1",
                                  "http://h/a/b#1", "a b/c#1", "a/b#1234567890"])  # fmt: skip
def test_an_invalid_pull_request(text: str) -> None:
    with pytest.raises(CommentError, match="give owner/name#12"):
        parse_pull_request(text)
