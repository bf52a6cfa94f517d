"""The first that `maxview` runs: Ctrl-C has its answer before anything else is imported, and again ends all at once."""

import os  # both are there before any program starts
import sys

INTERRUPTED = 130
_count = 0


def main() -> None:
    """The command line; an interrupt while it is loaded ends it without a word of Python's."""
    import _signal  # type: ignore[import-not-found] # what `signal` wraps: it alone is there in no time

    _signal.signal(_signal.SIGINT, _leave)
    from flows.cli.app import call

    code = INTERRUPTED
    try:
        watch_interrupts()
        code = call()
    except KeyboardInterrupt:
        _leave()
    finally:
        _signal.signal(_signal.SIGINT, end_at_once)  # there is nothing more to undo
    sys.exit(code)


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


def _interrupt(_number: int, _frame: object) -> None:
    global _count
    _count += 1
    if _count > 1:
        end_at_once()
    raise KeyboardInterrupt


def _count_interrupts(reading: int, number: int) -> None:
    seen = 0
    while numbers := os.read(reading, 64):
        seen += numbers.count(number)
        if seen > 1:
            end_at_once()


def end_at_once(_number: int = 0, _frame: object = None, *, code: int = INTERRUPTED) -> None:
    """End every process that this one has started, and then itself; what is on disk is whole."""
    from contextlib import suppress

    import psutil

    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.kill()
    if code != INTERRUPTED:
        os._exit(code)
    _leave()


def _leave(_number: int = 0, _frame: object = None) -> None:
    os.write(2, b"maxview: interrupted; the same command goes on from here\n")
    os._exit(INTERRUPTED)
