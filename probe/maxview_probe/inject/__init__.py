"""The recorder: this folder comes first on the PYTHONPATH of an observed process.

The modules import only the standard library, JAX, NumPy and each other, by relative names: in the observed process
their package is `maxview_observe`, and maxview itself may be missing.
"""
