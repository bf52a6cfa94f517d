"""Reports how many bytes of a long file have been read to listeners, e.g. the command line's progress display."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

LONG = 16 << 20  # bytes; shorter files are read in a second and not reported

type OnRead = Callable[[str, int, int], None]  # file name, bytes read, bytes of the file

_listeners: list[OnRead] = []


def report_read(path: Path, done: int, size: int) -> None:
    """Call every listener with the progress of a long file. `done` restarts at 0 if a file is read once more."""
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
