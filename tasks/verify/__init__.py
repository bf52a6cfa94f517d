"""Proves that an Orbax checkpoint exists, complete and unchanged, without JAX and without restoring it."""
