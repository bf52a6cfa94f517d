"""Shows the progress of reading many bytes, as a bar on a terminal or as lines."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from tasks.records.text import visible
from tasks.scrape.window import read_listener

READ_EVERY_S = 10.0  # minimum seconds between two lines


def open_stderr() -> Console:
    """Return a console for progress on standard error. In a pipe or a file it prints lines and redraws nothing.

    Rich takes a pipe for a terminal if FORCE_COLOR or TTY_COMPATIBLE is set, as in CI: redraws would fill its log.
    """
    return Console(stderr=True, force_terminal=None if sys.stderr.isatty() else False)


@contextmanager
def byte_progress(console: Console, start: str = "verifying") -> Iterator[Callable[[str, int, int], None]]:
    """Yield a thread-safe function that shows a bar, called with (description, bytes so far, total bytes).

    Without a terminal, it shows nothing. start: the description before the first call.
    """
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        DownloadColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        row = progress.add_task(start, total=None)
        yield lambda text, done, total: progress.update(row, description=visible(text), completed=done, total=total)


class ReadLines:
    """Prints how many bytes of a long file have been read, at the first call and then at most every READ_EVERY_S s."""

    def __init__(self, console: Console):
        self.console = console
        self._next = 0.0

    def __call__(self, what: str, done: int, size: int) -> None:
        """Print a line, unless the last one was printed less than READ_EVERY_S seconds ago."""
        if (now := time.monotonic()) >= self._next:
            self._next = now + READ_EVERY_S
            text = f"{visible(what)}: {done / 1e6:,.0f} of {size / 1e6:,.0f} MB"
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def show_reads(console: Console) -> Iterator[None]:
    """Show how many bytes of long files have been read while the block runs: as a bar on a terminal, else as lines."""
    with ExitStack() as stack:
        draw: Callable[[str, int, int], None] | None = None if console.is_terminal else ReadLines(console)

        def show(name: str, done: int, size: int) -> None:
            nonlocal draw
            if draw is None:  # no bar is shown before the first long file
                draw = stack.enter_context(byte_progress(console, "reading"))
            draw(f"reading {name}", done, size)

        with read_listener(show):
            yield
