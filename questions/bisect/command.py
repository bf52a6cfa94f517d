"""The command `maxview bisect`, which runs the flow `bisect` and returns the exit status."""

import json
from typing import Annotated

from cyclopts import Parameter

from flows.cli.commands.common_options import Json, check_store
from flows.cli.commands.run_flow import FlowError, finish_flow
from tasks.resolve.options import BisectOptions


def bisect(name: str, /, *, options: Annotated[BisectOptions, Parameter(name="*")], json_: Json = False) -> int:
    """Find the commit, or package version, between good and bad that changed a metric, in as few runs as it takes.

    Exit status: 1 if a commit or version was found for a case; 0 with --free, which trains nothing; else 3.

    Parameters
    ----------
    name
        A comparison of two refs: a file in configs/comparisons, for example main-vs-branch.
    """
    from questions.bisect.bisected_metric import read_metric
    from questions.bisect.points import choose_span, list_cases, read_versions

    # checked before the flow, because starting a server for it takes seconds
    options, more = options.replace(comparison=name), options.more
    if more.max_runs is not None and more.max_runs < 2:
        raise ValueError(f"--max-runs must be 2 or more, got {more.max_runs}: each end takes one")
    options.read_budget()
    list_cases(options)
    if options.metric:
        read_metric(options.metric)
    if more.packages:
        read_versions(more.packages)
    choose_span(options)
    check_store(options.out)

    from tasks.services.events import EVENTS, Bisected, Event

    bisections: list[Bisected] = []

    def keep(event: Event) -> None:
        if isinstance(event, Bisected):
            bisections.append(event)

    with EVENTS.heard_by(keep):
        state, _ = finish_flow("bisect", dict(options))
    if not bisections:
        raise FlowError(state.message or "the bisection did not finish")
    from questions.bisect.page import render_bisection

    if json_:
        print(json.dumps([json.loads(one.record.model_dump_json()) for one in bisections], indent=1))
    else:
        for record, page in bisections:
            print(render_bisection(record, page.place))
    outcomes = {one.record.outcome for one in bisections}
    return 1 if "found" in outcomes else 0 if outcomes == {"ledger"} else 3
