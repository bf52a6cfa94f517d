"""Signs a card with SHA-256, and finds later changes of the card or of the records in the store."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from tasks.records import ComparisonRecord
from tasks.records.card import Card, ReferenceCheck
from tasks.store import Store

REFERENCES = "references"  # folder of a store with the results of tests/references


def digests_of(
    records: Sequence[ComparisonRecord | None], checks: Sequence[ReferenceCheck], store: Store
) -> dict[str, str]:
    """Return path below the store → SHA-256, for the records of comparisons and their runs, and for reference files.

    checks: if empty, reference files are omitted. Missing files are omitted too."""
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
    """Return the problems of a card, one sentence each: a wrong signature, missing or changed records."""
    problems = [] if sign(card) == card.signature else ["the signature does not match the content: it was edited"]
    for row in card.rows:
        for name, digest in row.records.items():
            path = store.path / name
            if not path.is_file():
                problems.append(f"{row.case}: {name} is not in {store.address}")
            elif _digest(path) != digest:
                problems.append(f"{row.case}: {name} differs from the card's record")
    return list(dict.fromkeys(problems))
