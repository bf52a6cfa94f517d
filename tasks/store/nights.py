"""Reads the plans and the records of nights from a store, where each night has a folder."""

from collections.abc import Iterator

from pydantic import ValidationError

from tasks.records.night import NightPlan, NightRecord
from tasks.store.atomic import StoreError
from tasks.store.store import Store

FOLDER = "nightly"  # in the store


def read_night_plans(store: Store) -> Iterator[NightPlan]:
    """Yield the plan of every night in the store, finished or not. Raises StoreError for a damaged plan."""
    return _read(store, "plan.json", NightPlan)


def read_nights(store: Store) -> Iterator[NightRecord]:
    """Yield the record of every finished night in the store. Raises StoreError for a damaged record."""
    return _read(store, "record.json", NightRecord)


def _read[T: (NightPlan, NightRecord)](store: Store, file: str, kind: type[T]) -> Iterator[T]:
    names = [entry.name for entry in store.files.entries(pattern=f"{FOLDER}/*/{file}")]
    for name, data in store.files.read_many(names).items():
        try:
            yield kind.model_validate_json(data)
        except ValidationError as error:
            raise StoreError(f"{store.files.root}/{name}: is damaged or has another version: remove it") from error
