"""As much of GitHub on loopback as comments of pull requests need: pages of a list, POST and PATCH, tokens, refusals.

`python tests/standins/github.py TOKEN` prints its address and serves the pull request team/trainer#7 until it is ended.
`GET /_seen` returns the number of requests by method.
"""

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

MAX_COMMENT_LENGTH = 65_536
LIST = re.compile(r"/repos/team/trainer/issues/7/comments")
ONE = re.compile(r"/repos/team/trainer/issues/comments/(\d+)")


class Handler(BaseHTTPRequestHandler):
    """The state is the server's: `comments` in their order, `seen`, `token`."""

    protocol_version = "HTTP/1.1"
    server: Any

    def log_message(self, *_: Any) -> None:
        pass

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        status, value, headers = self._answer(url.path, parse_qs(url.query), json.loads(body) if body else {})
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = _serve

    def _answer(self, path: str, query: dict[str, list[str]], sent: Any) -> tuple[int, Any, dict[str, str]]:
        server = self.server
        if path == "/_seen":
            return 200, server.seen, {}
        server.seen[self.command] = server.seen.get(self.command, 0) + 1
        if self.headers.get("Authorization") != f"Bearer {server.token}":
            return 401, {"message": "Bad credentials"}, {}
        if not self.headers.get("User-Agent"):
            return 403, {"message": "Request forbidden by administrative rules."}, {}
        if self.command != "GET" and not 0 < len(sent.get("body", "")) <= MAX_COMMENT_LENGTH:
            return 422, {"message": "Validation Failed"}, {}
        one = ONE.fullmatch(path)
        if LIST.fullmatch(path) and self.command == "GET":
            return self._page(int(query.get("per_page", ["30"])[0]), int(query.get("page", ["1"])[0]))
        if LIST.fullmatch(path) and self.command == "POST":
            number = 1000 + len(server.comments)
            url = f"https://github.com/team/trainer/pull/7#issuecomment-{number}"
            server.comments.append({"id": number, "body": sent["body"], "html_url": url})
            return 201, server.comments[-1], {}
        found = [comment for comment in server.comments if one and comment["id"] == int(one[1])]
        if found and self.command == "PATCH":
            found[0]["body"] = sent["body"].replace("\n", "\r\n")  # as the service answers
            return 200, found[0], {}
        return 404, {"message": "Not Found"}, {}

    def _page(self, size: int, page: int) -> tuple[int, Any, dict[str, str]]:
        comments = self.server.comments
        shown = comments[(page - 1) * size : page * size]
        host, port = self.server.server_address
        following = f"http://{host}:{port}{LIST.pattern}?per_page={size}&page={page + 1}"
        return 200, shown, {"Link": f'<{following}>; rel="next"'} if page * size < len(comments) else {}


def make_server(token: str) -> Any:
    """A server that is not yet running, with no comments."""
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.comments, server.seen, server.token = [], {}, token
    return server


if __name__ == "__main__":
    made = make_server(sys.argv[1])
    sys.stdout.write(f"http://127.0.0.1:{made.server_address[1]}\n")
    sys.stdout.flush()
    made.serve_forever()
