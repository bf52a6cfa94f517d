"""Compares finished runs and publishes the pages without a Prefect server."""

from collections.abc import Collection, Sequence
from itertools import groupby

from tasks.diff.case import CaseRuns, compare_case
from tasks.history.prior import read_past
from tasks.publish.content.next_command import add_next
from tasks.publish.site.publish import publish_comparison
from tasks.records import RunPlan
from tasks.store import Store


def publish_finished(plans: Sequence[RunPlan], store: Store, done: Collection[tuple[str, str]] = ()) -> list[str]:
    """Publish every case whose runs have all finished; return the paths of the pages.

    done: pairs (comparison, case) to leave out, because they have a page already.
    """
    pages = []
    cases = len({plan.case for plan in plans})
    trained = [plan for plan in plans if plan.compiles_for is None]
    for (name, case), group in groupby(trained, key=lambda plan: (plan.comparison, plan.case)):
        own = list(group)
        records = [record for plan in own if (record := store.run(plan.run_name).read_record()) is not None]
        if (name, case) in done or len(records) < len(own):
            continue
        place, rules = own[0].target, own[0].rules
        runs = CaseRuns(comparison=name, case=case, target=place, runs=tuple(records), cases=cases, rules=rules)
        result = add_next(compare_case(runs, past=read_past(runs, store)), records, cases=cases)
        pages.append(str(publish_comparison(result, store, records)))
    return pages
