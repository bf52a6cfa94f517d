"""Ctrl-C: the first is answered before anything else is imported, the second ends everything at once."""

import _thread
import os  # all three are there before any program starts
import sys

TYPE_CHECKING = False  # as `typing` has it, which takes time to load
if TYPE_CHECKING:
    from collections.abc import Callable

INTERRUPTED, FAILED = 130, 2
READER_GONE = 141  # as shells show it
at_interrupt: "list[Callable[[], None]]" = []  # each is called in a thread of its own at the first Ctrl-C
END_OF_VIEW = b"\n\x1b[?25h"  # what a live view that is cut off owes its terminal: a new line, and the cursor
_enough = 2  # so many Ctrl-C end all at once
_said = False
_saying = _thread.allocate_lock()


def open_closed_streams() -> None:
    """Open /dev/null for standard streams that were closed at the start (`>&-`): no file may take their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8"))


def leave_at_interrupt() -> None:
    """From now on the first Ctrl-C ends this process at once: nothing has begun."""
    import _signal  # type: ignore[import-not-found] # what `signal` wraps: it alone is there in no time

    _signal.signal(_signal.SIGINT, _leave)


def run(call: "Callable[[], int]") -> None:
    """Call it and exit with what it returns; from its first Ctrl-C on there is never a second KeyboardInterrupt."""
    global _enough
    import atexit
    import errno
    import signal

    code = INTERRUPTED
    atexit.register(lambda: _end_without_teardown(code))  # the first registered is the last called
    try:
        watch_interrupts()
        code = call()
    except KeyboardInterrupt:
        say_interrupted()
    except (BrokenPipeError, SystemExit):  # the second is rich's word for the first
        code = READER_GONE
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # where the rest may go
    except Exception as error:
        if getattr(error, "errno", None) == errno.EIO:
            _say_unwritable()
        else:
            sys.excepthook(*sys.exc_info())
        code = FAILED  # Python's own 1 would mean that something regressed
    finally:
        signal.signal(signal.SIGINT, _ignore)
        _enough = 1  # there is nothing more to undo
    sys.exit(code)


def _say_unwritable() -> None:
    """Report an I/O error: a terminal that was closed, or a disk that fails. What else is printed goes nowhere."""
    from contextlib import suppress

    with suppress(OSError):
        os.write(2, b"maxview: input/output error: the terminal was closed, or a disk fails (dmesg shows it)\n")
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def watch_interrupts() -> None:
    """The first Ctrl-C raises KeyboardInterrupt; the second ends this process and its children, whatever it does."""
    import signal
    import threading

    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    # a handler waits for the main thread, which may be inside a library for long; the number of a signal does not
    threading.Thread(target=_count_interrupts, args=(reading, signal.SIGINT), daemon=True, name="interrupts").start()
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, _interrupt)


def _end_without_teardown(code: int) -> None:
    """Python takes libraries apart for up to seconds, in which nothing hears a Ctrl-C any more."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class NothingToUndo:
    """Inside this block the first Ctrl-C ends all at once: an exception out of nowhere may be lost inside a library."""

    def __enter__(self) -> None:
        global _enough
        import signal

        self._before, _enough = signal.signal(signal.SIGINT, _ignore), 1

    def __exit__(self, *_: object) -> None:
        global _enough
        import signal

        _enough = 2
        signal.signal(signal.SIGINT, self._before)


def _interrupt(number: int, _frame: object) -> None:
    import signal

    signal.signal(number, _ignore)
    raise KeyboardInterrupt


def _ignore(_number: int, _frame: object) -> None:
    """The thread that counts them has seen it."""


def _count_interrupts(reading: int, number: int) -> None:
    seen = 0
    while numbers := os.read(reading, 64):
        first, seen = seen == 0, seen + numbers.count(number)
        for call in at_interrupt if first and seen else ():
            _thread.start_new_thread(call, ())
        if seen >= _enough:
            end_at_once()


def end_at_once(*, code: int = INTERRUPTED) -> None:
    """End every process that this one has started, and then itself; what is on disk is whole."""
    from contextlib import suppress

    import psutil

    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.kill()
    if os.isatty(2):
        os.write(2, END_OF_VIEW)
    if code == INTERRUPTED:
        say_interrupted()
    os._exit(code)


def say_interrupted() -> None:
    """Say it once, however many threads come to it; when this returns it has been said.

    Not to be called where a signal's handler may interrupt it that calls it too.
    """
    global _said
    with _saying:
        if not _said:
            os.write(2, b"maxview: interrupted; the same command goes on from here\n")
        _said = True


def _leave(number: int, _frame: object) -> None:
    import _signal

    _signal.signal(number, _ignore)  # again it would meet itself
    say_interrupted()
    os._exit(INTERRUPTED)
