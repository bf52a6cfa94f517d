"""The flow `invariants`: resolve the twins → record and evaluate their steps → publish the matrix."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from configs.comparison import load_comparison
from configs.trainers import find_kind
from flows.publish_steps import comment_step
from questions.invariants.describe_invariants import name_twin
from questions.invariants.invariants_options import InvariantsOptions
from questions.invariants.page import place_record, read_matrices
from questions.invariants.steps import comment_of_matrix, evaluate_twins_step, publish_invariants_step
from questions.invariants.twin_files import load_twins
from questions.invariants.twin_plans import choose_cases
from tasks.publish.content.page_address import find_page
from tasks.publish.site.index import PAGE
from tasks.records.night import NightPlan, NightTwins
from tasks.services.flow_names import show_name, unless_named
from tasks.services.prefect_ui import CHANGED, log_result, with_parameters_of
from tasks.services.pull_request import parse_pull_request
from tasks.store.store import Store, open_store

# state of the flow `invariants` → the outcome of its twins
TWIN_OUTCOMES: Mapping[str, Literal["same", "another", "unknown"]] = {
    "Same": "same", CHANGED: "another", "Unknown": "unknown",
}  # fmt: skip


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


def evaluate_night_twins(plan: NightPlan, store: Store) -> Iterator[NightTwins]:
    """Evaluate the twins of each trainer that the night compared, in the cases outside quarantine; yield the answers.

    The trainer is that of the comparison's branch at the night's commit, or the installed one.
    """
    seen = set()
    for cell in plan.cells:
        trainer = load_comparison(cell.comparison).trainer
        ref, repository = cell.arms.branch or "", cell.arms.repository or ""
        if find_kind(trainer).takes_command or (trainer, ref, repository) in seen:
            continue
        seen.add((trainer, ref, repository))
        own = (one for one in plan.cells if one.comparison == cell.comparison and not one.quarantine)
        if not (cases := tuple(dict.fromkeys(one.case for one in own))):
            continue
        options = InvariantsOptions(
            trainer=trainer, ref=ref, repository=repository if ref else "", cases=cases, out=store.address
        )
        state: State[Any] = invariants(**dict(options), return_state=True)
        word = TWIN_OUTCOMES.get(state.name or "", "failed")
        if word == "failed":
            headline = state.message or "the twins were not evaluated"
            yield NightTwins(comparison=cell.comparison, outcome="failed", headline=headline)
            continue
        record = read_matrices(store, trainer)[-1]
        yield NightTwins(
            comparison=cell.comparison,
            outcome=word,
            headline=record.headline,
            broken=tuple(name_twin(one, several=len(cases) > 1) for one in record.having("another")),
            page=find_page(place_record(record, store) / PAGE, store).shown,
            next=record.next,
        )
