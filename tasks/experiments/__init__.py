"""Asks both arms' programs directly: do they compute one function, and which one is faster.

In: two `RunPlan`. Out: `FunctionComparison` and `ProgramTimes`.
Read first: same_function.py.
"""
