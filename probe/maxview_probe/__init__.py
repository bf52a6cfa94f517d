"""Observes a trainer in its own process, evaluates programs in float64 and times them in turns.

It runs in the trainer's Python, and imports the standard library, the JAX that it finds
there, and that JAX's own requirements: NumPy, SciPy, ml_dtypes.
"""
