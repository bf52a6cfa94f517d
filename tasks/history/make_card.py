"""Makes, signs and checks cards. A card lists which properties of every case the newest comparisons verified.

A property is an item of a row. The signature is a digest of the content, so that edits are noticed. A floor is one of
the proofs that both arms train equally.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from configs.comparison import list_names, load_comparison
from tasks.history.card_sources import PREFLIGHT, add_source_digests
from tasks.history.stored_comparisons import newest_comparisons
from tasks.metrics import result_metrics
from tasks.metrics.result_metrics import LOSS
from tasks.records import ComparisonRecord, RunPlan
from tasks.records.proof_card import UNCOMMITTED, Card, CardItem, CardRow, CardState, ReferenceCheck
from tasks.store import Store, StoreError

REFERENCES = "references"  # folder of a store with the results of tests/references
OURS = "maxview"  # name of maxview's own trainer
FLOORS = ("same program", "same bits", "same checkpoint")
LOSSES, CHECKPOINTS, OUTSIDE = "equal losses", "checkpoints proved", "outside references"
ITEMS = (*FLOORS, LOSSES, CHECKPOINTS, OUTSIDE, PREFLIGHT)
# whether a property holds (None: not decided) -> the state of its item
STATES: dict[bool | None, CardState] = {True: "verified", False: "failed", None: "not verified"}


def make_card(store: Store, comparison: str | None = None, root: Path | None = None) -> Card:
    """Return the signed card of a store. Raises StoreError for damaged records.

    Every case in configs/cases has a row for every named comparison in the store, even a case that was never compared.
    A case that was trained on several targets has a row for each.
    comparison: include only the named comparison of this name, even if the store lacks it.
    root: the checkout in which the sources of maxview's trainer are digested; None for a card without digests.
    """
    newest = newest_comparisons(store, comparison)
    names = sorted({record.comparison for record in newest} | ({comparison} if comparison else set()))
    checks = read_checks(store)
    compiled = {(r.comparison, r.case): r for r in newest if r.programs is not None}
    trained: dict[tuple[str, str], list[ComparisonRecord]] = {}
    for record in newest:
        if record.programs is None:
            trained.setdefault((record.comparison, record.case), []).append(record)
    rows = []
    for name in names:
        records = [record for record in newest if record.comparison == name]
        of_ours = OURS in _trainers_of(name, records, store)
        for case in sorted({*list_names("cases"), *(record.case for record in records)}):
            outside = checks.get(case, ()) if of_ours else None
            for found in trained.get((name, case), [None]):
                rows.append(_row(name, case, found, compiled.get((name, case)), outside, store))
    card = Card(rows=tuple(rows))
    card = add_source_digests(card, root) if root else card
    return card.model_copy(update={"signature": sign(card)})


def add_missing_cases(card: Card) -> Card:
    """Return the card with a row for each case in configs/cases that it lacks, sorted by comparison and case."""
    rows = list(card.rows)
    for name in dict.fromkeys(row.comparison for row in card.rows):
        known = {row.case for row in card.rows if row.comparison == name}
        rows += [_empty_row(name, case, ()) for case in list_names("cases") if case not in known]
    return card.model_copy(update={"rows": tuple(sorted(rows, key=lambda row: (row.comparison, row.case)))})


def _row(
    comparison: str,
    case: str,
    record: ComparisonRecord | None,
    preflight: ComparisonRecord | None,
    checks: Sequence[ReferenceCheck] | None,
    store: Store,
) -> CardRow:
    trained, compiled = _plans(record, store), _plans(preflight, store)
    items = [*(_trained_items(record, _sources(trained)) if record else _missing())]
    items += [_outside(checks), _preflight(preflight, _sources(compiled))]
    row = _empty_row(comparison, case, checks)
    update: dict[str, Any] = {"items": tuple(items), "records": _digests_of([record, preflight], checks or (), store)}
    if record is not None:
        environment = record.candidate.environment
        kind = environment.device_kind or environment.backend or "unknown device"
        update |= {
            "target": record.target,
            "device": f"{environment.num_devices or '?'} × {kind}",
            "verdict": "died" if record.has_died else record.verdict,
            "arms": (record.baseline.label, record.candidate.label),
            "trainers": _describe_trainers(trained),
            "day": record.created[:10],
            "command": f"{row.command} --target {record.target}",
        }
    return row.model_copy(update=update)


def _empty_row(comparison: str, case: str, checks: Sequence[ReferenceCheck] | None) -> CardRow:
    return CardRow(
        comparison=comparison,
        case=case,
        target="",
        device="",
        verdict="not compared",
        arms=("", ""),
        day="",
        command=f"maxview compare {comparison} --case {case}",
        items=(*_missing(), _outside(checks), _preflight(None, ())),
        checks=tuple(checks or ()),
    )


def _plans(record: ComparisonRecord | None, store: Store) -> list[RunPlan]:
    """Return the plans of a comparison's runs, the baseline's first; omits ingested logs and missing records."""
    logs = (*record.baseline.logs, *record.candidate.logs) if record else ()
    runs = [store.run_of_log(log).read_record() for log in logs]
    return [run.plan for run in runs if run is not None and run.plan is not None]


def _trainers_of(comparison: str, records: Sequence[ComparisonRecord], store: Store) -> set[str]:
    """Return the names of a comparison's trainers, from its runs' plans, else from its config; empty without both."""
    found = {plan.trainer for record in records for plan in _plans(record, store)}
    if found or comparison not in list_names("comparisons"):
        return found
    spec = load_comparison(comparison)
    return {spec.trainer_of(arm) for arm in spec.arms}


def _describe_trainers(plans: Sequence[RunPlan]) -> tuple[str, ...]:
    """Return each combination of trainer and commit (or version) once: `maxview 64bc92418`."""
    named = []
    for plan in plans:
        version = (plan.commit or "")[:9] or plan.versions.get(plan.trainer, "")
        named.append(" ".join(filter(None, (plan.trainer, version, UNCOMMITTED if plan.dirty else ""))))
    return tuple(dict.fromkeys(named))


def _sources(plans: Sequence[RunPlan]) -> tuple[str, ...]:
    """Return the commit of the last run (the candidate's); UNCOMMITTED if it is unknown or the checkout is dirty.

    Empty if there is no plan, or if the last run's trainer is not maxview's.
    """
    if not plans or plans[-1].trainer != OURS:
        return ()
    return (plans[-1].commit if plans[-1].commit and not plans[-1].dirty else UNCOMMITTED,)


def _trained_items(record: ComparisonRecord, sources: tuple[str, ...]) -> list[CardItem]:
    floors = {floor.name: floor for floor in record.floors}
    items = [
        CardItem(name=name, state=STATES[floor.holds], evidence=floor.evidence, sources=sources)
        if (floor := floors.get(name))  # type: ignore[call-overload]
        else CardItem(name=name, state="not verified", evidence="the trainers' records hold no such proof")
        for name in FLOORS
    ]
    verdicts = {row.metric: row for row in record.rows}
    for name, metric in ((LOSSES, LOSS.name), (CHECKPOINTS, result_metrics.CHECKPOINTS.name)):
        row = verdicts.get(metric)
        holds = None if row is None or row.verdict in ("unknown", "not judged") else row.verdict == "same"
        evidence = "no such row" if row is None else row.reason or row.candidate_text
        items.append(CardItem(name=name, state=STATES[holds], evidence=evidence, sources=sources))
    return items


def _missing() -> list[CardItem]:
    return [
        CardItem(name=name, state="not verified", evidence="never compared") for name in (*FLOORS, LOSSES, CHECKPOINTS)
    ]


def _outside(checks: Sequence[ReferenceCheck] | None) -> CardItem:
    """Return the item about the checks against independent implementations.

    checks: empty if there are none; None if no arm uses maxview's trainer.
    """
    if not checks:
        of_other = "tests/references compares maxview's own trainer only"
        reason = of_other if checks is None else "tests/references was not run"
        return CardItem(name=OUTSIDE, state="not verified", evidence=reason)
    beyond = [check for check in checks if not check.is_within_limit]
    told = [f"{c.reference}: {c.quantity} {c.difference:.1e} (limit {c.limit:.0e})" for c in beyond]
    return CardItem(
        name=OUTSIDE,
        state=STATES[not beyond],
        evidence="; ".join(told) or f"{len(checks)} quantities lie within their limits",
        sources=tuple(dict.fromkeys(check.commit or UNCOMMITTED for check in checks)),
    )


def _preflight(record: ComparisonRecord | None, sources: tuple[str, ...]) -> CardItem:
    if record is None or record.programs is None:
        return CardItem(name=PREFLIGHT, state="not verified", evidence="compiled for no slice: maxview preflight")
    state = STATES[not record.programs.unfit and record.verdict != "regressed"]
    evidence = f"{record.target}, {record.created[:10]}: {record.headline}"
    return CardItem(name=PREFLIGHT, state=state, evidence=evidence, sources=sources)


def read_checks(store: Store) -> Mapping[str, Sequence[ReferenceCheck]]:
    """Return case → its checks against independent implementations. Raises StoreError for a damaged file."""
    adapter = TypeAdapter(list[ReferenceCheck])
    found: dict[str, list[ReferenceCheck]] = {}
    names = [entry.name for entry in store.files.entries(pattern=f"{REFERENCES}/*.json")]
    for name, data in sorted(store.files.read_many(names).items()):
        try:
            for check in adapter.validate_json(data):
                found.setdefault(check.case, []).append(check)
        except ValidationError as error:
            raise StoreError(f"{store.files.root}/{name}: is damaged or has another version: remove it") from error
    return found


def _digests_of(
    records: Sequence[ComparisonRecord | None], checks: Sequence[ReferenceCheck], store: Store
) -> dict[str, str]:
    """Return path below the store → SHA-256, for the records of comparisons and runs, and for reference files.

    Missing files are omitted; without `checks`, the reference files are omitted too."""
    files = sorted((store.path / REFERENCES).glob("*.json")) if checks else []
    for record in filter(None, records):
        files.append(store.comparison(record.comparison, record.case, record.id).comparison)
        files += [store.run_of_log(log).record for arm in (record.baseline, record.candidate) for log in arm.logs]
    return {path.relative_to(store.path).as_posix(): _digest(path) for path in files if path.is_file()}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sign(card: Card) -> str:
    """Return the SHA-256 of a card without its field `signature`."""
    text = card.model_copy(update={"signature": ""}).model_dump_json()
    return hashlib.sha256(text.encode()).hexdigest()


def check_card(card: Card, store: Store) -> list[str]:
    """Return the problems of a card, one sentence each: a wrong signature, missing or changed files of the store."""
    problems = [] if sign(card) == card.signature else ["the signature does not match the content: it was edited"]
    for row in card.rows:
        for name, digest in row.records.items():
            path = store.path / name
            if not path.is_file():
                problems.append(f"{row.case}: {name} is not in {store.address}")
            elif _digest(path) != digest:
                problems.append(f"{row.case}: {name} differs from the card's record")
    return list(dict.fromkeys(problems))
