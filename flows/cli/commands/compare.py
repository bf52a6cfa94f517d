"""`maxview compare`: words to the flow `compare`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from flows.cli.commands.flow_runs import run_flow
from flows.cli.commands.options import (
    DEFAULT_OUT,
    Baseline,
    Branch,
    Case,
    Fresh,
    Json,
    Model,
    Out,
    Repository,
    Set,
    With,
    check_out,
)


def compare(
    name: str = "",
    /,
    *,
    case: Case = None,
    target: str | None = None,
    model: Model = None,
    repeats: int | None = None,
    set_: Set = None,
    branch: Branch = None,
    baseline: Baseline = None,
    repository: Repository = None,
    with_: With = None,
    aa: Annotated[bool, Parameter(negative="")] = False,
    until_decided: Annotated[bool, Parameter(negative="")] = False,
    budget: str | None = None,
    max_repeats: int | None = None,
    out: Out = DEFAULT_OUT,
    fresh: Fresh = False,
    take_over: Annotated[bool, Parameter(negative="")] = False,
    comment: str | None = None,
    json_: Json = False,
) -> int:
    """Train both arms of a comparison and say what differs.

    Parameters
    ----------
    name
        A comparison: a file in configs/comparisons, for example linen-vs-nnx.
    target
        Where to run (cpu, cpu-8, …); the comparison's own by default.
    repeats
        Runs per arm, interleaved.
    aa
        Both arms are meant to be the same commit: a control that measures the noise.
    until_decided
        Go on with more repeats, interleaved, until every judged row is decided or the budget ends.
    budget
        The time for that: 90s, 10m, 2h.
    max_repeats
        The runs per arm for that; 30 by default.
    take_over
        Go on with runs in a bucket that another machine has claimed of whose flow this Prefect server knows nothing:
        that machine is gone for good.
    comment
        A pull request on GitHub, owner/name#12: its one comment of this comparison is written or brought up to date,
        with the token in MAXVIEW_GITHUB_TOKEN.
    """
    from configs.comparison import list_names, load_target
    from configs.durations import read_budget
    from tasks.resolve.arm_trainers import ArmOptions
    from tasks.resolve.plans import Request, find_unfit, resolve
    from tasks.store.baselines import is_baseline_place

    check_name(name)
    # the input is checked here too: a mistake should not cost the start of a server
    request = Request(
        comparison=name,
        cases=tuple(case or ()),
        target=target,
        model=model,
        repeats=repeats,
        overrides=tuple(set_ or ()),
        blessed=str(baseline) if is_baseline_place(baseline) else "",
        arms=ArmOptions(
            baseline=None if is_baseline_place(baseline) else baseline,
            branch=branch,
            repository=repository,
            software=tuple(with_ or ()),
            aa=aa,
        ),
    )
    budget_s = read_budget(budget, max_repeats, until_decided=until_decided)
    plans = resolve(request, Path(out))
    left_out: dict[str, str] = {}
    if "all" in request.cases:
        left_out = find_unfit(list_names("cases"), load_target(plans[0].target), model=model)
    if comment is not None:
        from tasks.services.pull_request import parse_pull_request

        parse_pull_request(comment)
    check_out(out)

    parameters = {
        "comparison": name,
        "cases": list(case or []),
        "target": target,
        "model": model,
        "repeats": repeats,
        "overrides": list(set_ or []),
        "branch": branch,
        "baseline": baseline,
        "repository": repository,
        "software": list(with_ or []),
        "aa": aa,
        "until_decided": until_decided,
        "budget_s": budget_s,
        "max_repeats": max_repeats,
        "fresh": fresh,
        "take_over": take_over,
        "comment": comment,
    }
    return run_flow("compare", parameters, out=out, as_json=json_, left_out=left_out)


def check_name(name: str) -> None:
    """Raise ValueError that lists the comparisons where none is named, and where a case is named in its place."""
    from configs.comparison import list_names

    if not name:
        known = ", ".join(list_names("comparisons"))
        raise ValueError(f"name a comparison: {known}; for example: maxview compare linen-vs-nnx --case 03_dropout")
    if name in list_names("cases") and name not in list_names("comparisons"):
        raise ValueError(f"{name} is a case: maxview compare linen-vs-nnx --case {name}")
