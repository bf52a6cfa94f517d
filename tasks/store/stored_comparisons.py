"""Reads the records of comparisons in a store: all, or the newest for each named comparison, case, target and kind."""

from collections.abc import Iterator

from tasks.records.compared_case import ComparisonRecord
from tasks.store.store import Store


def newest_comparisons(store: Store, comparison: str | None = None) -> list[ComparisonRecord]:
    """Return the newest record per named comparison, case, target and kind (trained or compiled), sorted by these.

    comparison: only records of the comparison of this name. Raises StoreError for damaged records.
    """
    newest: dict[tuple[str, str, str, bool], ComparisonRecord] = {}
    for record in read_comparisons(store, comparison):
        key = (record.comparison, record.case, record.target, record.programs is not None)
        if key not in newest or newest[key].created <= record.created:
            newest[key] = record
    return [record for _, record in sorted(newest.items())]


def read_comparisons(store: Store, comparison: str | None = None) -> Iterator[ComparisonRecord]:
    """Yield the record of every finished comparison in the store. comparison: only those of this name."""
    store.refresh("comparisons")
    for directory in store.comparisons():
        if comparison in (None, directory.path.parent.parent.name):
            record = directory.read_comparison(listed=True)
            if record is not None:
                yield record
