"""The command `maxview ingest`, which runs the flow `ingest`."""

from typing import Annotated

from cyclopts import Parameter

from flows.cli.commands.common_options import Full, Json, absolute_place, check_store
from flows.cli.commands.run_flow import run_flow
from tasks.resolve.options import IngestOptions


def ingest(
    logs: Annotated[
        list[str] | None,
        Parameter(help="Two logs, baseline first, or one saved MaxView page with both; files, folders or gs://."),
    ] = None,
    /,
    *,
    options: Annotated[IngestOptions, Parameter(name="*")] = IngestOptions(),
    full: Full = False,
    json_: Json = False,
) -> int:
    """Compare runs from their logs."""
    from flows.cli.byte_progress import open_stderr, show_reads
    from tasks.diff.compare_logs import check_words
    from tasks.ingest.given_logs import assign_sides, open_arms

    check_words(options.target, options.tolerances)
    sides = assign_sides(logs or (), options.baseline, options.candidate)
    with show_reads(open_stderr()), open_arms(sides, aa=options.aa):
        pass  # raises for logs that cannot be compared, before a flow run begins
    check_store(options.out)

    given = {"logs": logs or (), "baseline": options.baseline, "candidate": options.candidate}
    places = {side: tuple(map(absolute_place, words)) for side, words in given.items()}
    return run_flow("ingest", dict(options) | places, as_json=json_, full=full)
