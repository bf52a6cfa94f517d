"""Compares a night with the night before it on the same target: results → changes → the night's record."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from tasks.records.night import COUNTED, CellResult, NightChange, NightPlan, NightRecord, NightTwins
from tasks.store.nights import FOLDER, read_nights
from tasks.store.store import Store


def finish_night(
    plan: NightPlan,
    results: Sequence[CellResult],
    store: Store,
    found: Sequence[NightChange] = (),
    twins: Sequence[NightTwins] = (),
) -> NightRecord:
    """Write the night's record to the store, which marks the night as finished; return the record.

    found: results of `name_culprit`.
    """
    before = find_night_before(plan, store)
    record = NightRecord(
        plan=plan,
        results=tuple(results),
        ended=datetime.now(UTC).isoformat(timespec="seconds"),
        before=before.plan.id if before else None,
        changes=(
            *find_changes(before.results if before else (), results),
            *find_twin_changes(before.twins if before else (), twins),
            *found,
        ),
        twins=tuple(twins),
    )
    store.files.write(f"{FOLDER}/{plan.id}/record.json", record.model_dump_json(indent=1).encode())
    return record


def find_night_before(plan: NightPlan, store: Store) -> NightRecord | None:
    """Return the night that finished last on the same target, except `plan` itself; None if there is none."""
    return max(
        (record for record in read_nights(store) if record.plan.id != plan.id and record.plan.target == plan.target),
        key=lambda record: (record.ended, record.plan.id),
        default=None,
    )


def find_changes(before: Sequence[CellResult], now: Sequence[CellResult]) -> Iterator[NightChange]:
    """Yield a change per cell whose outcome changed since the previous night and is or was bad (in COUNTED).

    A cell without an earlier result has a change if its outcome is bad. Leaves out quarantined cells.
    """
    known: Mapping[tuple[str, str], CellResult] = {(r.cell.comparison, r.cell.case): r for r in before}
    for result in now:
        cell = result.cell
        earlier = known.get((cell.comparison, cell.case))
        if cell.quarantine or (earlier is not None and result.word == earlier.word):
            continue
        if result.outcome in COUNTED or (earlier is not None and earlier.outcome in COUNTED):
            yield NightChange(
                kind="outcome",
                comparison=cell.comparison,
                case=cell.case,
                owner=cell.owner,
                outcome=result.word,
                before=earlier.word if earlier is not None else None,
                text=result.headline,
            )


def find_twin_changes(before: Sequence[NightTwins], now: Sequence[NightTwins]) -> Iterator[NightChange]:
    """Yield a change for each trainer whose twins that differ are not those of the previous night."""
    known = {one.comparison: one for one in before}
    for one in now:
        earlier = known.get(one.comparison)
        state = (earlier.broken, earlier.outcome == "failed") if earlier else ((), False)
        if (one.broken, one.outcome == "failed") != state:
            yield NightChange(kind="twins", comparison=one.comparison, text=one.line)
