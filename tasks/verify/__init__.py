"""Proves that an Orbax checkpoint exists, is complete and is unchanged, without JAX and without a restore."""
