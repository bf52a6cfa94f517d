"""The command `maxview scrape`: reads logs into tables."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from flows.cli.commands.json_option import Json


def scrape(
    logs: Annotated[
        list[str],
        Parameter(help="Files, folders, gs:// addresses, or - for standard input.", allow_leading_hyphen=True),
    ],
    /,
    *,
    format_: Annotated[Literal["table", "json", "parquet"], Parameter(name="--format")] = "table",
    output: Annotated[
        Path | None, Parameter(name=["-o", "--output"], help="File to write; default: the terminal.")
    ] = None,
    json_: Json = False,
) -> int:
    """Read logs of MaxText, maxview, Megatron-LM and its relatives, and torchtitan into tables.

    A stream may still be growing (kubectl logs -f POD | maxview scrape -); Ctrl-C ends it and shows the lines so far.
    Step lines that cannot be read are reported on standard error; the exit status stays 0.
    """
    from flows.cli.byte_progress import open_stderr, show_reads
    from tasks.ingest.log_sources import read_sources
    from tasks.publish.terminal.scrape_output import show_progress, show_reading, warn_of_unread

    errors = open_stderr()
    with show_reads(errors):
        reading = read_sources(logs, stream=sys.stdin.buffer, on_progress=partial(show_progress, errors))
    show_reading(reading, "json" if json_ else format_, output)
    warn_of_unread(reading)
    return 0
