"""The command `maxview preflight`, which runs the flow `preflight`."""

from collections.abc import Callable
from importlib.util import find_spec
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


def add_to_demo(out: str, tell: Callable[[str], None]) -> None:
    """Add a preflight to the example site, if the TPU compiler is installed. tell: prints a line."""
    if find_spec("libtpu"):
        preflight("linen-vs-nnx", options=PreflightOptions(out=out))
    else:
        tell("no preflight: libtpu is not installed; type `uv sync --extra tpu` for it, and make the demo anew")
