"""The entry point of `maxview`: answers Ctrl-C before it loads anything else."""

import os

from flows.cli.interrupts import is_terminal, leave_at_interrupt, open_closed_streams, run

SIGN_OF_LIFE = "…\r"  # the first output, which begins in its place, replaces it


def main() -> None:
    """Run the command line; an interrupt while it is loaded ends it without a traceback."""
    open_closed_streams()
    leave_at_interrupt()
    if is_terminal():
        os.write(2, SIGN_OF_LIFE.encode())
    from flows.cli.app import call

    run(call)
