"""The command `maxview history`: shows how the metrics of a store's comparisons change over time."""

from typing import Annotated

from cyclopts import Parameter

from flows.cli.commands.common_options import DEFAULT_OUT, Json, Out


def history(
    case: str | None = None,
    /,
    *,
    metric: Annotated[list[str] | None, Parameter(help="A metric, again for more.", negative="")] = None,
    target: str | None = None,
    since: Annotated[str | None, Parameter(help="A date, or how long ago: 12h, 30d, 8w.")] = None,
    rebuild: Annotated[bool, Parameter(help="First rebuild it from the folders of the store.", negative="")] = False,
    compact: Annotated[bool, Parameter(help="First merge its small files into one.", negative="")] = False,
    out: Out = DEFAULT_OUT,
    json_: Json = False,
) -> int:
    """Show the metrics of all comparisons over time: trends, changes of level, and their possible causes.

    Parameters
    ----------
    case
        A case, for example 03_dropout; every case by default.
    target
        The target of the runs; every target by default.
    """
    from flows.cli.show_history import show_history

    return show_history(
        out,
        case=case,
        metrics=metric or (),
        target=target,
        since=since,
        as_json=json_,
        rebuild=rebuild,
        compact=compact,
    )
