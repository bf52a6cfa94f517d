"""The Prefect flows, each with the steps that it calls in a module beside it, and the command line.

In: the options of a flow. Out: its final state, and published records.
Read first: compare.py.
"""
