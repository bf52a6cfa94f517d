"""Reports how far long files have been read, to the live view of the command line."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

LONG = 16 << 20  # bytes: shorter files are read in a second

type OnRead = Callable[[str, int, int], None]  # file name, bytes read, bytes of the file

_listeners: list[OnRead] = []


def report_read(path: Path, done: int, size: int) -> None:
    """Pass the progress of a long file to every listener; a file that is read again starts at 0 again."""
    if size >= LONG:
        for listen in list(_listeners):
            listen(path.name, done, size)


@contextmanager
def reads_heard_by(listen: OnRead) -> Iterator[None]:
    """Call `listen` with the progress of long files while the block runs."""
    _listeners.append(listen)
    try:
        yield
    finally:
        _listeners.remove(listen)
