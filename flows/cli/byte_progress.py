"""Shows the progress of work that reads bytes: a bar on a terminal, lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from tasks.records.text import visible
from tasks.scrape.read_progress import reads_heard_by

READ_EVERY_S = 10.0  # seconds between two lines about a long file


@contextmanager
def byte_progress(console: Console, what: str = "verifying") -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function that shows progress, from any thread: a description, bytes that were read, bytes in all."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        DownloadColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        row = progress.add_task(what, total=None)
        yield lambda what, done, total: progress.update(row, description=visible(what), completed=done, total=total)


class ReadLines:
    """Prints how far a long file has been read: at once, then every ten seconds."""

    def __init__(self, console: Console):
        self.console = console
        self._next = 0.0

    def __call__(self, what: str, done: int, size: int) -> None:
        """Print the megabytes if it is time."""
        if (now := time.monotonic()) >= self._next:
            self._next = now + READ_EVERY_S
            text = f"{visible(what)}: {done / 1e6:,.0f} of {size / 1e6:,.0f} MB"
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def show_reads(console: Console) -> Iterator[None]:
    """Show how far long files have been read while the block runs: a bar on a terminal, elsewhere lines."""
    with ExitStack() as stack:
        draw: Callable[[str, int, int], None] | None = None if console.is_terminal else ReadLines(console)

        def show(name: str, done: int, size: int) -> None:
            nonlocal draw
            if draw is None:  # no bar before the first long file
                draw = stack.enter_context(byte_progress(console, "reading"))
            draw(f"reading {name}", done, size)

        with reads_heard_by(show):
            yield
