"""Writes and reads runs and comparisons in a store: an output folder, or a bucket with a local working copy.

In: records and files. Out: the same records and files, from a folder or a bucket.
Read first: store.py.
"""

from tasks.store.atomic import StoreError, write_atomically
from tasks.store.directories import ComparisonDirectory, RunDirectory
from tasks.store.names import check_name, safe_name
from tasks.store.store import Store, check_writable, describe_store, open_store
