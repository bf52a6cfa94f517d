"""Handles Ctrl-C. During a command, the first one raises KeyboardInterrupt, the second one ends all processes at once.

A SIGTERM during a command acts like the first Ctrl-C, so that the processes of a command that is ended end, too.

Before and after the command, and in a block of `NothingToUndo`, the first one ends all processes.
"""

import _thread
import os  # Python itself has loaded these three already, so importing them takes no time
import sys

TYPE_CHECKING = False  # like `typing.TYPE_CHECKING`: `typing` is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable

INTERRUPTED, FAILED = 130, 2  # exit statuses
READER_GONE = 141  # exit status after a broken pipe, as a shell reports SIGPIPE
at_interrupt: "list[Callable[[], None]]" = []  # functions to call at the first Ctrl-C, each in its own thread
END_OF_LINE = b"\x1b[K"  # clears the rest of the line, which may still show start.py's SIGN_OF_LIFE
END_OF_VIEW = b"\n\x1b[?25h"  # after an interrupted live view: a line break, and show the cursor again
_enough = 2  # number of Ctrl-C that ends all processes at once
_said = False  # whether the message about the interrupt was printed
_saying = _thread.allocate_lock()


def open_closed_streams() -> None:
    """Open /dev/null for closed standard streams (`>&-`), so that later files do not get descriptors 0 to 2."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8"))


def is_terminal() -> bool:
    """Return whether standard error is a terminal that supports escape sequences."""
    return os.isatty(2) and os.environ.get("TERM", "dumb") != "dumb"


def leave_at_interrupt() -> None:
    """Make the first Ctrl-C end this process at once. For the start, before there is anything to undo."""
    import _signal  # type: ignore[import-not-found] # the C part of `signal`, which is slow to import

    _signal.signal(_signal.SIGINT, _leave)


def run_interruptible(call: "Callable[[], int]") -> None:
    """Call `call` and exit with its return value, or with INTERRUPTED, READER_GONE or FAILED if it raised.

    The first Ctrl-C raises KeyboardInterrupt in `call`.
    """
    global _enough
    import atexit
    import errno
    import signal

    code = INTERRUPTED
    atexit.register(lambda: _end_without_teardown(code))  # registered first, so called last
    try:
        watch_interrupts()
        code = call()
    except KeyboardInterrupt:
        say_interrupted()
    except (BrokenPipeError, SystemExit):  # rich raises SystemExit for a broken pipe
        code = READER_GONE
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # discards further output
    except Exception as error:
        if getattr(error, "errno", None) == errno.EIO:
            _say_unwritable()
        else:
            sys.excepthook(*sys.exc_info())
        code = FAILED  # not Python's exit status 1, which means a regression
    finally:
        signal.signal(signal.SIGINT, _ignore)
        _enough = 1  # from now on the first Ctrl-C ends all processes
    sys.exit(code)


def _say_unwritable() -> None:
    """Report an I/O error (a closed terminal or a failing disk), and discard further output."""
    from contextlib import suppress

    with suppress(OSError):
        os.write(2, b"maxview: input/output error: the terminal was closed, or a disk fails (dmesg shows it)\n")
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def watch_interrupts() -> None:
    """Make the first Ctrl-C raise KeyboardInterrupt, and the second one end this process and its children at once."""
    import signal
    import threading

    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    # Python runs signal handlers in the main thread, which a library may block. The thread below counts signals by
    # reading the wake-up descriptor, to which Python writes at once.
    threading.Thread(target=_count_interrupts, args=(reading, signal.SIGINT), daemon=True, name="interrupts").start()
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGTERM, _end_in_order)


def _end_without_teardown(code: int) -> None:
    """Exit without Python's teardown, which can take seconds and does not react to Ctrl-C."""
    sys.stdout.flush()
    sys.stderr.flush()
    if is_terminal():
        os.write(2, END_OF_LINE)
    os._exit(code)


class NothingToUndo:
    """A block in which the first Ctrl-C ends all processes at once, because a library may swallow KeyboardInterrupt."""

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


def _end_in_order(number: int, _frame: object) -> None:
    import signal

    signal.signal(number, signal.SIG_DFL)  # the second one ends this process
    raise KeyboardInterrupt


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing. `_count_interrupts` still counts the signal."""


def _count_interrupts(reading: int, number: int) -> None:
    seen = 0
    while numbers := os.read(reading, 64):
        first, seen = seen == 0, seen + numbers.count(number)
        for call in at_interrupt if first and seen else ():
            _thread.start_new_thread(call, ())
        if seen >= _enough:
            end_at_once()


def end_at_once(*, code: int = INTERRUPTED) -> None:
    """Kill all child processes, then exit. The store stays intact, because its files are written atomically."""
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
    """Print the message about an interrupt, once per process. Thread-safe.

    Not reentrant: if a signal handler interrupts a call and calls this function, the process deadlocks.
    """
    global _said
    with _saying:
        if not _said:
            os.write(2, b"maxview: interrupted; the same command goes on from here\n")
        _said = True


def _leave(number: int, _frame: object) -> None:
    import _signal

    _signal.signal(number, _ignore)  # prevents re-entry
    say_interrupted()
    os._exit(INTERRUPTED)
