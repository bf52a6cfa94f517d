"""Serves the pages of a folder over HTTP, with gzip and ranges."""

import gzip
import re
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

# The only paths that are served.
PUBLIC = re.compile(
    r"(index|history|card)\.html|comparisons/[^/]+/cases\.js|comparisons/[^/]+/[^/]+/[^/]+/.+"
    r"|bisections/[^/]+/[^/]+/[^/]+/index\.html"
)
FRONT = "index.html"
PACKED = (".html", ".js", ".json", ".txt", ".svg")
WORTH_PACKING = 1_000  # bytes
LARGEST_PACKED = 20_000_000  # bytes; a larger file is sent uncompressed, in pieces
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def make_server(
    folder: Path, *, host: str = "127.0.0.1", port: int = 0, front: str = "", not_found: str = ""
) -> ThreadingHTTPServer:
    """Return a server of the folder's pages, bound to a port; call `serve_forever` on it. Raises OSError.

    `front`: the front page of a folder without one; `not_found`: the page for every other address without a file.
    """
    return ThreadingHTTPServer((host, port), partial(_Handler, directory=str(folder), front=front, not_found=not_found))


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".txt": "text/plain; charset=utf-8",
    }

    def __init__(self, *args: Any, front: str, not_found: str, **options: Any):
        self.front, self.not_found = front, not_found
        super().__init__(*args, **options)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def _answer(self, *, with_body: bool) -> None:
        path = self._find()
        if path is None:
            self._answer_without_file(with_body=with_body)
            return
        size = path.stat().st_size
        wanted = self._range(size)
        if wanted == ():
            self.send_response(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            self.send_header("Content-Range", f"bytes */{size}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        begin, end = wanted or (0, size)
        packed = None
        takes = "gzip" in self.headers.get("Accept-Encoding", "")
        if wanted is None and takes and path.suffix in PACKED and WORTH_PACKING <= size <= LARGEST_PACKED:
            packed = gzip.compress(path.read_bytes(), compresslevel=5, mtime=0)
        self.send_response(HTTPStatus.OK if wanted is None else HTTPStatus.PARTIAL_CONTENT)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Length", str(end - begin if packed is None else len(packed)))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Vary", "Accept-Encoding")
        self.send_header("X-Content-Type-Options", "nosniff")
        if packed is not None:
            self.send_header("Content-Encoding", "gzip")
        if wanted is not None:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{size}")
        self.end_headers()
        if not with_body:
            return
        if packed is not None:
            self.wfile.write(packed)
            return
        with path.open("rb") as file:
            file.seek(begin)
            while begin < end and (data := file.read(min(1 << 20, end - begin))):
                self.wfile.write(data)
                begin += len(data)

    def _answer_without_file(self, *, with_body: bool) -> None:
        is_front = bool(self.front) and self._name() == FRONT
        body = (self.front if is_front else self.not_found).encode()
        self.send_response(HTTPStatus.OK if is_front else HTTPStatus.NOT_FOUND)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-cache")
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def _name(self) -> str:
        return unquote(urlsplit(self.path).path).lstrip("/") or FRONT

    def _find(self) -> Path | None:
        """Return the requested file; None if it is no part of the site."""
        name = self._name()
        if ".." in name.split("/") or "\0" in name or not PUBLIC.fullmatch(name):
            return None
        root = Path(self.directory).resolve()
        path = (root / name).resolve()
        return path if path.is_relative_to(root) and path.is_file() else None

    def _range(self, size: int) -> tuple[int, int] | tuple[()] | None:
        """Return the requested range [begin, end) of bytes; None: the whole file; empty: not satisfiable."""
        asked = _RANGE.fullmatch(self.headers.get("Range", "").strip())
        if asked is None or not (asked[1] or asked[2]):
            return None
        if not asked[1]:
            begin, end = max(0, size - int(asked[2])), size
        else:
            begin, end = int(asked[1]), min(int(asked[2]) + 1, size) if asked[2] else size
        return (begin, end) if begin < end else ()
