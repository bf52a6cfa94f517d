"""Turns an Orbax checkpoint into the proof that it is there, whole and unchanged, without JAX and without a restore."""

from tasks.verify.against import compare_checkpoints
from tasks.verify.arms import compare_arms
from tasks.verify.checkpoint import verify_checkpoint, verify_checkpoints, verify_saved
from tasks.verify.commit import is_committed, wait_for_commit
from tasks.verify.layout import CheckpointError, FoundStep, find_steps
from tasks.verify.manifest import manifest_path

__all__ = [
    "CheckpointError",
    "FoundStep",
    "compare_arms",
    "compare_checkpoints",
    "find_steps",
    "is_committed",
    "manifest_path",
    "verify_checkpoint",
    "verify_checkpoints",
    "verify_saved",
    "wait_for_commit",
]
