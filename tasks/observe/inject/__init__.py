"""The first folder on the PYTHONPATH of an observed process; its code runs in that process only.

The modules import the standard library, JAX and NumPy, and each other by relative names: in the observed process their
package is `maxview_observe`, and maxview itself may be missing.
"""
