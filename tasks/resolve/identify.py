"""Turns the facts that decide a run's outcome into its identity and its name."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

NAME_LENGTH = 64  # characters


def hash_identity(facts: Mapping[str, Any]) -> str:
    """Return the run's identity: the same hash for equal facts on every machine."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def name_run(case: str, arm: str, repeat: int, identity: str) -> str:
    """Return a readable folder name of at most NAME_LENGTH characters."""
    words, end = f"{case}-{arm}", f"-r{repeat}-{identity[:10]}"
    room = NAME_LENGTH - len(end)
    if len(words) > room:
        words = f"{words[: room - 9]}-{hashlib.sha256(words.encode()).hexdigest()[:8]}"
    return words + end
