"""`maxview preflight`: passes the command line to the flow `preflight`."""

from pathlib import Path

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


def preflight(
    name: str,
    /,
    *,
    case: Case = None,
    target: str = "v6e-32",
    model: Model = None,
    set_: Set = None,
    branch: Branch = None,
    baseline: Baseline = None,
    repository: Repository = None,
    with_: With = None,
    out: Out = DEFAULT_OUT,
    fresh: Fresh = False,
    json_: Json = False,
) -> int:
    """Compile both arms for a TPU slice, on a machine without one, and say what differs.

    Parameters
    ----------
    name
        A comparison: a file in configs/comparisons, for example linen-vs-nnx.
    target
        A target that names a topology: v5e-32, v5p-64, v6e-32, v7x-32.
    """
    from configs.errors import ConfigError
    from tasks.preflight.read import find_missing_compilers
    from tasks.resolve.arm_trainers import ArmOptions
    from tasks.resolve.plans import Request, resolve

    # the input is checked here too: a mistake should not cost the start of a server
    request = Request(
        comparison=name,
        cases=tuple(case or ()),
        target=target,
        model=model,
        overrides=tuple(set_ or ()),
        arms=ArmOptions(baseline=baseline, branch=branch, repository=repository, software=tuple(with_ or ())),
        compile_only=True,
    )
    missing = find_missing_compilers(resolve(request, Path(out)))
    if missing:
        raise ConfigError(missing)
    check_out(out)

    parameters = {
        "comparison": name,
        "cases": list(case or []),
        "target": target,
        "model": model,
        "overrides": list(set_ or []),
        "branch": branch,
        "baseline": baseline,
        "repository": repository,
        "software": list(with_ or []),
        "fresh": fresh,
    }
    return run_flow("preflight", parameters, out=out, as_json=json_)
