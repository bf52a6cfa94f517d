"""Writes and reads runs and comparisons in a store: an output folder, or a bucket with a local working copy.

In: records and files. Out: the same records and files, from a folder or a bucket.
Read first: store.py.
"""

from typing import TYPE_CHECKING

from configs.exports import import_on_use

if TYPE_CHECKING:
    from tasks.store.atomic import StoreError, write_atomically
    from tasks.store.directories import ComparisonDirectory, RunDirectory
    from tasks.store.names import check_name, safe_name
    from tasks.store.store import Store, check_writable, describe_store, open_store
else:
    __getattr__ = import_on_use(__name__, __file__)
