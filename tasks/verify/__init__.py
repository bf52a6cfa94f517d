"""Proves that an Orbax checkpoint exists, is complete and is unchanged, without JAX and without a restore.

In: folders of checkpoints. Out: `CheckpointProof`; of two, `CheckpointDifference`.
Read first: verification.py.
"""
