"""`maxview ingest`: logs to the flow `ingest`."""

from typing import Annotated, Any

from cyclopts import Parameter

from flows.commands.flow_runs import run_flow
from flows.commands.options import DEFAULT_OUT, Json, Out, absolute_place, check_out


def ingest(
    logs: Annotated[
        list[str], Parameter(help="Two logs, baseline first, or one saved MaxView page with both; files or gs://.")
    ],
    /,
    *,
    case: str | None = None,
    target: str | None = None,
    out: Out = DEFAULT_OUT,
    aa: Annotated[bool, Parameter(help="The two are meant to be the same commit.", negative="")] = False,
    json_: Json = False,
) -> int:
    """Compare runs from the logs that they left.

    Parameters
    ----------
    case
        The case's name, where the logs do not tell it.
    target
        Where they ran: a target, or any name. Its history tells what equal runs there differ by, and learns from these.
    """
    from tasks.ingest import check_target, read_pair
    from tasks.scrape.buckets import on_this_machine

    check_target(target)
    with on_this_machine(logs) as paths:
        read_pair(paths)
    check_out(out)

    def run() -> Any:
        from flows.ingest import ingest as flow

        return flow(
            logs=[absolute_place(log) for log in logs],
            case=case,
            out=absolute_place(out),
            aa=aa,
            target=target,
            return_state=True,
        )

    return run_flow(run, out=out, as_json=json_)
