"""Reads a compile's result from its run's folder; finds missing TPU compilers of planned compiles."""

from collections.abc import Iterable

from configs.topologies import find_topology
from tasks.preflight.verdict import Compiled
from tasks.records import CompiledProgram, CompileError, RunPlan, RunRecord
from tasks.records.compiled import FILE, OPTIMISED
from tasks.store import Store
from tasks.store.json_records import model_from_json, read_document


def read_compile(record: RunRecord, store: Store) -> Compiled:
    """Return a compile's result. A compile without a report counts as failed; its error is the run's error.

    Raises StoreError if a file is damaged.
    """
    assert record.plan is not None  # every compile has one
    assert record.plan.compiles_for is not None
    directory = store.run_of_log(record.log)
    program = read_document(directory.bring(FILE), model_from_json(CompiledProgram))
    text = directory.bring(OPTIMISED)
    if program is not None:
        return Compiled(run=record, program=program, text=text.read_bytes() if text.is_file() else None)
    topology, error = find_topology(record.plan.compiles_for), record.reading.error
    stated = CompileError(type=error.type, message=error.message) if error else None
    facts = topology.model_dump(include={"devices", "hbm_bytes"})
    program = CompiledProgram(topology=topology.name, ok=False, error=stated, **facts)
    return Compiled(run=record, program=program, text=None, reported=False)


def find_missing_compilers(plans: Iterable[RunPlan]) -> list[str]:
    """Return install commands for arms without a TPU compiler: one line for all arms that use maxview's packages."""
    lacking = {plan.arm: plan for plan in plans if "libtpu" not in plan.versions}
    sharing = " and ".join(f"'{arm}'" for arm, plan in lacking.items() if not plan.software)
    start = "libtpu, which compiles for TPUs, is not installed for"
    return [
        *([f"{start} {sharing}: uv sync --extra tpu"] if sharing else []),
        *(
            f"{start} '{arm}': --with '{arm}:jax[tpu]', or packages: ['jax[tpu]'] in the comparison's file"
            for arm, plan in lacking.items()
            if plan.software
        ),
    ]
