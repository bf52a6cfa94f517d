"""Stores runs and comparisons in an output folder or a bucket, and reads them back."""

from tasks.store.atomic import StoreError, write_atomically
from tasks.store.directories import ComparisonDirectory, RunDirectory
from tasks.store.folder import Store, check_writable, open_store
from tasks.store.names import check_name, safe_name
