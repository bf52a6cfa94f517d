"""`maxview ingest`: logs to the flow `ingest`."""

from typing import Annotated

from cyclopts import Parameter

from flows.cli.commands.flow_runs import run_flow
from flows.cli.commands.options import DEFAULT_OUT, Json, Out, absolute_place, check_out

Side = Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")]


def ingest(
    logs: Annotated[
        list[str] | None,
        Parameter(help="Two logs, baseline first, or one saved MaxView page with both; files, folders or gs://."),
    ] = None,
    /,
    *,
    baseline: Side = None,
    candidate: Side = None,
    case: str | None = None,
    target: str | None = None,
    tolerances: str = "default",
    out: Out = DEFAULT_OUT,
    aa: Annotated[bool, Parameter(help="The two are meant to be the same commit.", negative="")] = False,
    json_: Json = False,
) -> int:
    """Compare runs from the logs that they left.

    Parameters
    ----------
    baseline
        Several runs of each side: the baseline's logs, or pages of which its side counts. Folders, patterns, gs://.
    candidate
        The candidate's, in the same way.
    case
        The case's name, where the logs do not name it.
    target
        Where they ran: a target, or any name. Its history shows what equal runs there differ by, and learns from these.
    tolerances
        What must not differ by more: default, or other-draws for runs with other first weights or another batch.
    """
    from tasks.diff.compare_logs import check_words
    from tasks.ingest.given_logs import open_arms, sort_words

    check_words(target, tolerances)
    with open_arms(sort_words(logs or (), baseline or (), candidate or ()), aa=aa):
        pass  # what is no comparison is refused before a flow run is begun
    check_out(out)

    sides = {"logs": logs, "baseline": baseline, "candidate": candidate}
    parameters = {side: [absolute_place(log) for log in words] if words else None for side, words in sides.items()} | {
        "case": case, "aa": aa, "target": target, "tolerances": tolerances,
    }  # fmt: skip
    return run_flow("ingest", parameters, out=out, as_json=json_)
