"""The entry point of `maxview`: sets up the handling of Ctrl-C before the slow imports."""

import os

from flows.cli.interrupts import is_terminal, leave_at_interrupt, open_closed_streams, run_interruptible

SIGN_OF_LIFE = "…\r"  # shown during the imports; the first output overwrites it


def main() -> None:
    """Run the command line. Ctrl-C during its imports ends it without a traceback."""
    open_closed_streams()
    leave_at_interrupt()
    if is_terminal():
        os.write(2, SIGN_OF_LIFE.encode())
    from flows.cli.app import call_command

    run_interruptible(call_command)
