"""The command `maxview restores`: is what was restored what was saved."""

from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from flows.cli.commands.common_options import Full, Json
from questions.restores.restores_options import RestoresOptions


def restores(
    name: str,
    /,
    *,
    options: Annotated[RestoresOptions, Parameter(name="*")] = RestoresOptions(),
    full: Full = False,
    json_: Json = False,
) -> int:
    """Train each arm for a few steps, start each arm again where each one saved, and compare the first state.

    In the clone of any JAX trainer, its command after `--` needs no comparison. Each run has a folder of its own. Exit
    status: 1 if an array is not restored as saved; 3 if an arm's own checkpoint could not be compared; else 0.

    Parameters
    ----------
    name
        A comparison: a file in configs/comparisons, for example linen-vs-nnx.
    """
    from questions.restores.restore_matrix import check_restores, describe_matrix
    from tasks.store.store import open_store

    errors = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    store = open_store(options.out)
    matrix = check_restores(name, options, store.path, errors.print)
    if json_:
        print(matrix.model_dump_json(indent=1))
        return matrix.exit_status
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for line in describe_matrix(matrix, full=full):
        console.print(line)
    console.print(f"logs and states {matrix.folder}")
    return matrix.exit_status
