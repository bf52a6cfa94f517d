"""Prints the progress of a log that is read from a stream, and warnings about step lines that could not be read."""

from rich.console import Console

from tasks.records import LogReading
from tasks.records.text import plain


def show_progress(console: Console, size: int, line: bytes) -> None:
    """Print the number of bytes read so far, and the last line."""
    text = plain(line.decode("utf-8", "replace").strip()[-100:])
    console.print(f"{size / 1e6:,.1f} MB  {text}", highlight=False, no_wrap=True, overflow="ellipsis")


def warn_of_unread(reading: LogReading) -> None:
    """Print a warning to standard error if step lines could not be read, because all results lack them."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for run in reading.runs:
        coverage = run.coverage
        lacking = max(coverage.step_lines_seen - coverage.step_lines_parsed, len(coverage.unread))
        if not lacking:
            continue
        lines = ", ".join(str(line.line) for line in coverage.unread)
        more = "" if lacking <= len(coverage.unread) else " and others"
        console.print(
            f"[red]warning:[/] {plain(run.name)}: {lacking} of {coverage.step_lines_seen} step lines could "
            f"not be read (line {lines}{more}); their values are in no table"
        )
