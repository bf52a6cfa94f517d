"""The entry point of `maxview`: answers Ctrl-C before it loads anything else."""

from flows.cli.interrupts import leave_at_interrupt, open_closed_streams, run


def main() -> None:
    """Run the command line; an interrupt while it is loaded ends it without a traceback."""
    open_closed_streams()
    leave_at_interrupt()
    from flows.cli.app import call

    run(call)
