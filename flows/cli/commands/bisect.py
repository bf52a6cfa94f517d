"""`maxview bisect`: words to the flow `bisect`."""

import json
import os
from typing import Annotated

from cyclopts import Parameter

from flows.cli.commands.flow_runs import FlowError, finish_flow
from flows.cli.commands.options import DEFAULT_OUT, Case, Json, Model, Out, Repository, Set, check_out


def bisect(
    name: str,
    /,
    *,
    good: str,
    bad: str = "HEAD",
    case: Case = None,
    target: str | None = None,
    model: Model = None,
    set_: Set = None,
    repository: Repository = None,
    metric: str = "",
    packages: str = "",
    budget: str | None = None,
    max_runs: int | None = None,
    free: Annotated[bool, Parameter(negative="")] = False,
    out: Out = DEFAULT_OUT,
    json_: Json = False,
) -> int:
    """Find the commit between good and bad that changed a metric, in as few runs as it takes.

    Exit status: 1 a commit was found; 3 only a range, or no sure difference; 0 after --free.

    Parameters
    ----------
    name
        A comparison of two refs: a file in configs/comparisons, for example main-vs-branch.
    good
        A branch, tag or commit that was good; an ancestor of bad.
    bad
        One that is bad.
    target
        Where to run; the comparison's own by default.
    metric
        A row's title such as "Step time, steady", or loss, died, memory, program, checkpoint; the worst row by default.
    packages
        Bisect versions with the code of bad: jax==0.12.0..0.12.3, or each: jax==0.11.1,0.12.0. Where good and bad are
        two commits, the four corners of code and packages say first which of the two it was.
    budget
        The time that all runs together may take: 90s, 10m, 2h.
    max_runs
        How many runs there may be in all.
    free
        Stop at the compile ledger: what the compiler makes of every commit. Nothing is trained.
    """
    from configs.durations import read_duration
    from tasks.bisect.points import BisectRequest, find_span, read_versions, span_of_packages
    from tasks.bisect.questions import read_question

    # the input is checked here too: a mistake should not cost the start of a server
    if max_runs is not None and max_runs < 2:
        raise ValueError(f"--max-runs must be 2 or more, got {max_runs}: each end takes one")
    try:
        budget_s = read_duration(budget) if budget else None
    except ValueError as error:
        raise ValueError(f"--budget: {error}") from error
    request = BisectRequest(
        comparison=name, good=good, bad=bad, cases=tuple(case or ()), target=target, model=model,
        overrides=tuple(set_ or ()), repository=repository, metric=metric, packages=packages, budget_s=budget_s,
        max_runs=max_runs, free=free,
    )  # fmt: skip
    if metric:
        read_question(metric)
    if packages:
        read_versions(packages)
    if packages and good == bad:
        span_of_packages(request)
    else:
        find_span(request)
    check_out(out)

    from tasks.services.events import EVENTS, Bisected, Event

    found: list[Bisected] = []

    def keep(event: Event) -> None:
        if isinstance(event, Bisected):
            found.append(event)

    parameters = request.model_dump(mode="json")
    with EVENTS.heard_by(keep):
        state, _ = finish_flow("bisect", parameters, out)
    if not found:
        raise FlowError(state.message or "the bisection did not finish")
    from tasks.publish.site.bisection_page import render_bisection

    if json_:
        print(json.dumps([json.loads(one.record.model_dump_json()) for one in found], indent=1))
    else:
        for record, page in found:
            print(render_bisection(record, page.address if "://" in page.address else os.path.relpath(page.path)))
    outcomes = {one.record.outcome for one in found}
    return 1 if "found" in outcomes else 0 if outcomes == {"ledger"} else 3
