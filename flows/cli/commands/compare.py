"""The command `maxview compare`, which runs the flow `compare`."""

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from configs.comparison import load_target
from configs.names import list_names
from flows.cli.commands.common_options import Full, Json, check_store
from flows.cli.commands.report_options import Reports
from flows.cli.commands.run_flow import PREFIX, FlowError, finish_flow, run_flow
from tasks.resolve.options import CompareOptions


def compare(
    name: str = "",
    /,
    *,
    options: Annotated[CompareOptions, Parameter(name="*")] = CompareOptions(),
    reports: Annotated[Reports, Parameter(name="*")] = Reports(),
    full: Full = False,
    json_: Json = False,
) -> int:
    """Train both arms of a comparison and report their differences.

    In the clone of any JAX trainer, its command after `--` needs no comparison: the main branch is compared with the
    working tree. `--steps N` ends each run after N steps.

    Parameters
    ----------
    name
        A comparison: a file in configs/comparisons, for example linen-vs-nnx.
    """
    check_comparison_name(name)
    from tasks.diff.judge.gate import read_gate
    from tasks.resolve.arm_config import find_unfit_cases
    from tasks.resolve.plans import request_comparison, resolve

    # checked before the flow, because starting a server for it takes seconds
    options = options.replace(comparison=name)
    options.read_budget()
    options.read_interleave()
    options.read_only()
    read_gate(options.more.gate)
    plans = resolve(request_comparison(options), Path(options.out))
    left_out: dict[str, str] = {}
    if "all" in options.cases:
        left_out = find_unfit_cases(list_names("cases"), load_target(plans[0].target), model=options.more.model or None)
    if options.more.comment:
        from tasks.services.pull_request import parse_pull_request

        parse_pull_request(options.more.comment)
    check_store(options.out)
    reports.check()
    if options.read_seeds() is not None:
        return judge_seeds(options, as_json=json_)
    return run_flow("compare", dict(options), as_json=json_, full=full, left_out=left_out, reports=reports)


def judge_seeds(options: CompareOptions, *, as_json: bool) -> int:
    """Train both arms with several seeds, print whether they converge alike, and return the exit status."""
    state, view = finish_flow("compare", dict(options))
    records = [record for record, _ in view.convergence]
    if not records:
        raise FlowError(PREFIX.sub("", state.message or "") or "the flow did not finish")
    from tasks.diff.judge.convergence import convergence_status
    from tasks.publish.terminal.convergence import show_convergence

    if as_json:
        print(json.dumps([json.loads(record.model_dump_json()) for record in records], indent=1))
    else:
        for record, place in view.convergence:
            print(f"{show_convergence(record)}\n\n  page  {place}")
    return convergence_status(records)


def check_comparison_name(name: str) -> None:
    """Raise ValueError if `name` is empty, or names a case instead of a comparison."""
    if not name:
        known = ", ".join(list_names("comparisons"))
        raise ValueError(f"name a comparison: {known}; for example: maxview compare linen-vs-nnx --case 03_dropout")
    if name in list_names("cases") and name not in list_names("comparisons"):
        raise ValueError(f"{name} is a case: maxview compare linen-vs-nnx --case {name}")
