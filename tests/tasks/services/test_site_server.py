"""The pages over HTTP: gzip, ranges, and no other files of the folder."""

import gzip
import http.client
import socket
import threading
from collections.abc import Iterator
from email.message import Message

import pytest

from tasks.services.site_server import make_server

pytestmark = pytest.mark.flows

PAGE = "comparisons/linen-vs-nnx/01_base/abc"
BISECTION = "bisections/main-vs-branch/01_base/abc"
TEXT = "".join(f"line {i}\n" for i in range(2_000))


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("out")
    (folder / PAGE / "logs").mkdir(parents=True)
    (folder / PAGE / "logs/baseline.txt").write_text(TEXT)
    (folder / "index.html").write_text("<h1>front</h1>")
    (folder / "history.html").write_text("<h1>history</h1>")
    (folder / BISECTION).mkdir(parents=True)
    for name in ("index.html", "bisection.json"):
        (folder / BISECTION / name).write_text("found")
    (folder / "runs/a").mkdir(parents=True)
    (folder / "runs/a/plan.json").write_text("{}")
    (folder / PAGE / "secret.txt").symlink_to("/etc/hostname")
    server = make_server(folder, front="of an empty folder", not_found="<h1>no page</h1>")
    listener = socket.create_server(("127.0.0.1", 0))
    port = int(listener.getsockname()[1])
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    yield port
    server.should_exit = True
    thread.join()


def ask(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, Message, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers, body


def test_a_file_is_gzipped_if_the_client_accepts_it(port: int) -> None:
    path = f"/{PAGE}/logs/baseline.txt"
    status, headers, body = ask(port, path, Accept_Encoding="gzip, br")
    assert (status, headers["Content-Encoding"]) == (200, "gzip")
    assert gzip.decompress(body).decode() == TEXT
    assert len(body) < len(TEXT) / 2
    status, headers, body = ask(port, path)
    assert (status, body.decode()) == (200, TEXT)
    assert "Content-Encoding" not in headers
    assert headers["Content-Type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("asked", "begin", "end"), [("bytes=10-19", 10, 20), ("bytes=-7", -7, None), ("bytes=100-", 100, None)]
)
def test_a_requested_range_is_returned(port: int, asked: str, begin: int, end: int | None) -> None:
    status, headers, body = ask(port, f"/{PAGE}/logs/baseline.txt", Range=asked, Accept_Encoding="gzip")
    assert (status, body.decode()) == (206, TEXT[begin:end])
    first = begin % len(TEXT)
    assert headers["Content-Range"] == f"bytes {first}-{first + len(body) - 1}/{len(TEXT)}"


def test_the_page_of_a_bisection_is_served_and_its_record_is_not(port: int) -> None:
    assert ask(port, f"/{BISECTION}/index.html")[0] == 200
    assert ask(port, f"/{BISECTION}/bisection.json")[0] == 404


def test_the_history_is_served_and_a_wrong_address_has_a_page(port: int) -> None:
    assert ask(port, "/history.html")[2] == b"<h1>history</h1>"
    status, headers, body = ask(port, "/nothing.html")
    assert (status, headers["Content-Type"], body) == (404, "text/html; charset=utf-8", b"<h1>no page</h1>")


def test_an_unsatisfiable_range_is_refused(port: int) -> None:
    status, headers, body = ask(port, f"/{PAGE}/logs/baseline.txt", Range="bytes=9999999-")
    assert (status, headers["Content-Range"], body) == (416, f"bytes */{len(TEXT)}", b"")


def test_the_root_serves_the_index_and_head_has_no_body(port: int) -> None:
    assert ask(port, "/")[2] == b"<h1>front</h1>"
    status, headers, body = ask(port, "/", method="HEAD")
    assert (status, headers["Content-Length"], body) == (200, "14", b"")


@pytest.mark.parametrize(
    "path",
    ["/runs/a/plan.json", "/comparisons/", f"/{PAGE}/../../../../runs/a/plan.json", "/%2e%2e/x", f"/{PAGE}/secret.txt",
     "/.index.lock", "/nothing"],
)  # fmt: skip
def test_only_pages_are_served(port: int, path: str) -> None:
    assert ask(port, path)[0] == 404
