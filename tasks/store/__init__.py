"""Writes and reads runs and comparisons in a store: an output folder, or a bucket with a local working copy.

In: records and files. Out: the same records and files, from a folder or a bucket.
Read first: store.py.
"""
