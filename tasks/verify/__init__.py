"""Turns an Orbax checkpoint into the proof that it is there, whole and unchanged, without JAX and without a restore."""
