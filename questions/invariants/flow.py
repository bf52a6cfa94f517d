"""The flow `invariants`: resolve the twins → record and evaluate their steps → publish the matrix."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from flows.publish_steps import comment_step
from questions.invariants.invariants_options import InvariantsOptions
from questions.invariants.steps import comment_of_matrix, evaluate_twins_step, publish_invariants_step
from questions.invariants.twin_files import load_twins
from questions.invariants.twin_plans import choose_cases
from tasks.services.flow_names import show_name, unless_named
from tasks.services.prefect_ui import CHANGED, log_result, with_parameters_of
from tasks.services.pull_request import parse_pull_request
from tasks.store.store import open_store


@unless_named
def name_run() -> str:
    """Return the flow run's name: trainer, ref and cases."""
    given = flow_run.parameters
    ref, cases = given.get("ref") or "as installed", ", ".join(given.get("cases") or ["01_base"])
    return show_name(f"{given['trainer']} {ref}: twins of {cases}")


@flow(
    name="invariants",
    flow_run_name=name_run,
    description="Evaluate a trainer's own twins, settings that must not change what is computed, in float64.",
)
@with_parameters_of(InvariantsOptions)
def invariants(options: InvariantsOptions) -> State[Any]:
    """Evaluate the twins and publish the matrix. The final state is Failed if a twin computes another function."""
    load_twins(options.twins)
    choose_cases(options)
    if options.comment:
        parse_pull_request(options.comment)  # reports a mistake before anything is recorded
    store = open_store(options.out)
    record, page = publish_invariants_step(evaluate_twins_step(options, store), store)
    if options.comment:
        comment_step(comment_of_matrix(record, page), options.comment)
    log_result([(record.headline, page.shown)])
    if record.exit_status == 1:
        return Failed(name=CHANGED, message=record.headline)
    return Completed(name="Unknown" if record.exit_status else "Same", message=record.headline)
