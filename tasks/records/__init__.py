"""Frozen pydantic records that the packages under tasks/ exchange and store, with log positions of logged values.

In: nothing: other packages make the records. Out: JSON that stays readable in later versions.
Read first: compared_case.py.
"""
