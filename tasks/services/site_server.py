"""Serves the pages of a store's folder over HTTP, with gzip compression and range requests."""

import re
from os import PathLike, stat_result
from pathlib import Path

import uvicorn
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from configs.questions import load_questions

# The served paths beside those of questions; / stands for FRONT. All others are answered with 404.
PUBLIC = r"index\.html|index/[^/]+\.js|comparisons/[^/]+/cases-[^/]+\.js|comparisons/[^/]+/[^/]+/[^/]+/.+"
FRONT = "index.html"
WORTH_PACKING = 1_000  # bytes; smaller responses are not compressed
STOP_S = 1  # seconds to finish responses after Ctrl-C


def make_server(folder: Path, *, front: str = "", not_found: str = "") -> uvicorn.Server:
    """Return a server of the folder's pages; its method `run` takes listening sockets.

    `front`: HTML of the front page if the folder has none; empty: 404. `not_found`: HTML of every response 404.
    """
    pages = GZipMiddleware(_Pages(folder, front, not_found), minimum_size=WORTH_PACKING, compresslevel=5)
    return uvicorn.Server(
        uvicorn.Config(pages, log_level="critical", lifespan="off", ws="none", timeout_graceful_shutdown=STOP_S)
    )


class _Pages(StaticFiles):
    """The pages in a folder: PUBLIC, and those of questions. Links out of the folder are treated as missing."""

    def __init__(self, folder: Path, front: str, not_found: str) -> None:
        super().__init__(directory=folder)
        self._front, self._not_found = front, not_found
        served = [question.served for question in load_questions().values() if question.served]
        self._public = re.compile("|".join([PUBLIC, *served]))

    def lookup_path(self, path: str) -> tuple[str, stat_result | None]:
        return super().lookup_path(path) if self._public.fullmatch(path) else ("", None)

    async def get_response(self, path: str, scope: Scope) -> Response:
        name = FRONT if path == "." else path
        try:
            response = await super().get_response(name, scope)
        except HTTPException:
            is_front = bool(self._front) and name == FRONT
            response = HTMLResponse(self._front if is_front else self._not_found, 200 if is_front else 404)
        response.headers["Cache-Control"] = "no-cache"
        return response

    def file_response(
        self, full_path: str | PathLike[str], stat_result: stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response
