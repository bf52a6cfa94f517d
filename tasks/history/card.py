"""Turns the newest comparisons of a store into a card: the verified and unverified items of every case."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from configs.comparison import list_names
from tasks.history.newest import newest_comparisons
from tasks.records import ComparisonRecord
from tasks.records.card import Card, CardItem, CardRow, CardState, ReferenceCheck
from tasks.store import Store, StoreError

REFERENCES = "references"  # a store's folder with the results of tests/references
FLOORS = ("same program", "same bits", "same checkpoint")
LOSSES, CHECKPOINTS, OUTSIDE, PREFLIGHT = "equal losses", "checkpoints proved", "outside references", "preflight"
ITEMS = (*FLOORS, LOSSES, CHECKPOINTS, OUTSIDE, PREFLIGHT)
STATES: dict[bool | None, CardState] = {True: "verified", False: "failed", None: "not verified"}


def make_card(store: Store, comparison: str | None = None) -> Card:
    """Return the signed card of a store, of one comparison or of all. Raises StoreError for damaged records.

    Every case in configs/cases has a row for every comparison: one that was never compared is "not verified".
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
        for case in sorted({*list_names("cases"), *(case for known, case in trained if known == name)}):
            preflight = compiled.get((name, case))
            for found in trained.get((name, case), [None]):
                rows.append(_row(name, case, found, preflight, checks.get(case, ()), store))
    card = Card(rows=tuple(rows))
    return card.model_copy(update={"signature": sign(card)})


def _row(
    comparison: str,
    case: str,
    record: ComparisonRecord | None,
    preflight: ComparisonRecord | None,
    checks: Sequence[ReferenceCheck],
    store: Store,
) -> CardRow:
    items = [*(_trained_items(record) if record else _missing()), _outside(checks), _preflight(preflight)]
    common = {"comparison": comparison, "case": case, "items": tuple(items)}
    digests = {name: value for one in (record, preflight) if one for name, value in _digests(one, store).items()}
    if record is None:
        command = f"maxview compare {comparison} --case {case}"
        empty = {"target": "", "device": "", "verdict": "not compared", "arms": ("", ""), "day": ""}
        return CardRow.model_validate(common | empty | {"command": command, "records": digests})
    environment = record.candidate.environment
    device = f"{environment.num_devices or '?'} × {environment.device_kind or environment.backend or 'unknown device'}"
    return CardRow.model_validate(
        common
        | {
            "target": record.target,
            "device": device,
            "verdict": "died" if record.has_died else record.verdict,
            "arms": (record.baseline.label, record.candidate.label),
            "day": record.created[:10],
            "command": f"maxview compare {comparison} --case {case} --target {record.target}",
            "records": digests,
        }
    )


def _trained_items(record: ComparisonRecord) -> list[CardItem]:
    floors = {floor.name: floor for floor in record.floors}
    items = [
        CardItem(name=name, state=STATES[floor.holds], evidence=floor.evidence)
        if (floor := floors.get(name))  # type: ignore[call-overload]
        else CardItem(name=name, state="not verified", evidence="the trainers' records hold no such proof")
        for name in FLOORS
    ]
    verdicts = {row.metric: row for row in record.rows}
    for name, metric, good in ((LOSSES, "loss_per_step", "same"), (CHECKPOINTS, "checkpoints", "same")):
        row = verdicts.get(metric)
        holds = None if row is None or row.verdict in ("unknown", "not judged") else row.verdict == good
        evidence = "no such row" if row is None else row.reason or row.candidate_text
        items.append(CardItem(name=name, state=STATES[holds], evidence=evidence))
    return items


def _missing() -> list[CardItem]:
    return [
        CardItem(name=name, state="not verified", evidence="never compared") for name in (*FLOORS, LOSSES, CHECKPOINTS)
    ]


def _outside(checks: Sequence[ReferenceCheck]) -> CardItem:
    if not checks:
        return CardItem(name=OUTSIDE, state="not verified", evidence="no outside reference was run: tests/references")
    told = "; ".join(f"{c.reference}: {c.quantity} {c.difference:.1e} (limit {c.limit:.0e})" for c in checks)
    return CardItem(name=OUTSIDE, state=STATES[all(check.holds for check in checks)], evidence=told)


def _preflight(record: ComparisonRecord | None) -> CardItem:
    if record is None or record.programs is None:
        return CardItem(name=PREFLIGHT, state="not verified", evidence="compiled for no slice: maxview preflight")
    state = STATES[not record.programs.unfit and record.verdict != "regressed"]
    return CardItem(name=PREFLIGHT, state=state, evidence=f"{record.target}, {record.created[:10]}: {record.headline}")


def _digests(record: ComparisonRecord, store: Store) -> dict[str, str]:
    """Return the sha256 of the comparison's record and of its runs' records; leaves out missing files."""
    files = [store.comparison(record.comparison, record.case, record.id).comparison]
    files += [store.run_of_log(log).record for arm in (record.baseline, record.candidate) for log in arm.logs]
    return {path.relative_to(store.path).as_posix(): _digest(path) for path in files if path.is_file()}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_checks(store: Store) -> Mapping[str, Sequence[ReferenceCheck]]:
    """Return the checks against outside references in a store, by case. Raises StoreError for a damaged file."""
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


def sign(card: Card) -> str:
    """Return the signature of a card's content."""
    text = card.model_copy(update={"signature": ""}).model_dump_json()
    return hashlib.sha256(text.encode()).hexdigest()


def check_card(card: Card, store: Store) -> list[str]:
    """Return the problems of a card: a signature that does not match its content, missing or changed records."""
    problems = [] if sign(card) == card.signature else ["the signature does not match the content: it was edited"]
    for row in card.rows:
        for name, digest in row.records.items():
            path = store.path / name
            if not path.is_file():
                problems.append(f"{row.case}: {name} is not in {store.address}")
            elif _digest(path) != digest:
                problems.append(f"{row.case}: {name} differs from the card's record")
    return list(dict.fromkeys(problems))
