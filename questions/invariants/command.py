"""The command `maxview invariants`: do a trainer's own twins compute one function."""

from collections.abc import Callable
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from flows.cli.commands.common_options import Json
from questions.invariants.invariants_options import InvariantsOptions


def invariants(
    *,
    options: Annotated[InvariantsOptions, Parameter(name="*")] = InvariantsOptions(),
    full: Annotated[bool, Parameter(negative="", help="A line for every twin in every case.")] = False,
    json_: Json = False,
) -> int:
    """Evaluate settings that must not change what is computed: each pair in float64, without training.

    Exit status: 1 if a twin computes another function; 3 if one could not be evaluated, or none applies; else 0.
    """
    from questions.invariants.describe_invariants import describe_invariants
    from questions.invariants.make_record import make_record
    from questions.invariants.page import publish_invariants
    from questions.invariants.twin_files import load_twins
    from tasks.store.store import open_store

    twins = load_twins(options.twins)
    errors = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    store = open_store(options.out)
    record = make_record(options, twins, store.path, errors.print)
    record, page = publish_invariants(record, store)
    if json_:
        print(record.model_dump_json(indent=1))
        return record.exit_status
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for line in describe_invariants(record, full=full):
        console.print(line)
    console.print(f"page {page}{f' · next: {record.next}' if record.next else ''}")
    return record.exit_status


def add_to_demo(out: str, _tell: Callable[[str], None]) -> None:
    """Add a page of invariants to the example site. out: the site's address."""
    invariants(options=InvariantsOptions(twins=("scan", "dtype"), cases=("01_base",), out=out))
