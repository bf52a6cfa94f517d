"""The command `maxview preflight`, which runs the flow `preflight`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from flows.cli.commands.common_options import Full, Json, check_store
from flows.cli.commands.run_flow import run_flow
from tasks.resolve.options import PreflightOptions


def preflight(
    name: str,
    /,
    *,
    options: Annotated[PreflightOptions, Parameter(name="*")] = PreflightOptions(),
    full: Full = False,
    json_: Json = False,
) -> int:
    """Compile both arms for a TPU slice, on a machine without one, and report the differences.

    Parameters
    ----------
    name
        A comparison: a file in configs/comparisons, for example linen-vs-nnx.
    """
    from configs.errors import ConfigError
    from questions.preflight.planned_compiles import find_missing_compilers
    from tasks.resolve.plans import request_compiles, resolve

    # checked before the flow, because starting a server for it takes seconds
    options = options.replace(comparison=name)
    missing = find_missing_compilers(resolve(request_compiles(options), Path(options.out)))
    if missing:
        raise ConfigError(missing)
    check_store(options.out)
    return run_flow("preflight", dict(options), as_json=json_, full=full)
