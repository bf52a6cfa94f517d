"""The commands `maxview site build`, `serve` and `demo`: build, serve, or make an example of a store's pages."""

import os
import socket
from contextlib import suppress
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Console

from configs.extensions import find_functions
from flows.cli.commands.common_options import DEFAULT_OUT, Json, Out
from flows.cli.examples import show_examples

DEMO_OUT = "maxview-demo"

site = App(name="site", help="The pages of a store: built out of its records, served over HTTP, or as an example.")


@site.command(help_epilogue=show_examples("site build"))
def build(*, out: Out = DEFAULT_OUT, json_: Json = False) -> int:
    """Write the index and every missing or outdated page."""
    from tasks.publish.site.comparison_pages import build_site
    from tasks.publish.site.index import PAGE
    from tasks.records.text import counted
    from tasks.store.store import open_store

    store, console = open_store(out), Console(highlight=False, markup=False, soft_wrap=True)
    built = build_site(store, tell=(lambda _: None) if json_ else console.print)
    if json_:
        print(built.model_dump_json(indent=1))
        return 0
    for problem in built.unread:
        Console(stderr=True, markup=False, soft_wrap=True).print(f"not read: {problem}")
    console.print(f"{counted(built.written, 'page')} written, {built.kept} up to date")
    console.print(f"page: {store.address_of(store.path / PAGE)}")
    return 0


@site.command(help_epilogue=show_examples("site serve"))
def serve(
    *,
    out: Out = DEFAULT_OUT,
    port: Annotated[int, Parameter(help="The port; 0: any that is free.")] = 8000,
    host: Annotated[
        str, Parameter(help="The address to listen at; by default only this machine has access.")
    ] = "127.0.0.1",
) -> int:
    """Serve the pages, and no other files, over HTTP until Ctrl-C; with gzip and ranges."""
    from tasks.publish.site.index import PAGE, gather_index
    from tasks.publish.site.index_page import render_index, render_not_found
    from tasks.services.site_server import make_server
    from tasks.store.store import open_store

    store = open_store(out, reading=True)
    front = "" if (store.path / PAGE).is_file() else render_index(gather_index(store), store)
    try:
        listener = socket.create_server((host, port))
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise ValueError(f"{host}:{port} cannot be opened ({reason}); try --port 0") from error
    place = f"http://{host}:{listener.getsockname()[1]}/"
    Console(markup=False, soft_wrap=True).print(f"{store.address} at {place} until Ctrl-C")
    with suppress(KeyboardInterrupt):  # Ctrl-C is the normal end of this command
        make_server(store.path, front=front, not_found=render_not_found()).run([listener])
    return 0


@site.command(help_epilogue=show_examples("site demo"))
def demo(
    *documents: str,
    out: Annotated[str, Parameter(name="--out", help="The folder for the example.")] = DEMO_OUT,
) -> int:
    """Make an example site: two tiny trainings, a preflight (with libtpu), and made-up nights with every verdict.

    Parameters
    ----------
    documents
        Saved MaxView pages with both logs, to add to the example.
    """
    from flows.cli.commands.compare import compare
    from flows.cli.demo import make_demo
    from tasks.publish.terminal.typed_command import as_typed
    from tasks.resolve.options import CompareOptions

    console = Console(highlight=False, markup=False, soft_wrap=True)

    def run() -> None:
        compare("linen-vs-nnx", options=CompareOptions(out=out))
        for add in find_functions("demo"):
            add(out, console.print)

    page = make_demo(documents, out, run)
    console.print(f"page: {page if '://' in page else os.path.relpath(page)}")
    console.print(f"next: {as_typed(f'maxview site serve --out {out}')}")
    return 0
