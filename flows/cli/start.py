"""The entry point of `maxview`: Ctrl-C is answered first, then the command goes to a spare process or runs here."""

import os
import sys

from flows.cli.interrupts import leave_at_interrupt, run


def main() -> None:
    """The command line; an interrupt while it is loaded ends it without a word of Python's."""
    leave_at_interrupt()
    from flows.cli.hand_over import hand_over

    status = hand_over(sys.argv[1:])
    if status is not None:
        os._exit(status)
    from flows.cli.app import call

    run(call)
