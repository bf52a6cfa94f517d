"""The folder that stands first on an observed process's PYTHONPATH; what is in it runs there and not here.

The modules import the standard library, JAX and NumPy, and each other by relative names: in the observed process their
package is `maxview_observe`, and maxview itself may be missing.
"""
