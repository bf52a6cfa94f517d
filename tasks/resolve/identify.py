"""Computes a run's identity (a hash of everything that can change its outcome) and its folder name."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

NAME_LENGTH = 64  # characters


def hash_identity(facts: Mapping[str, Any]) -> str:
    """Return the run's identity: 16 hex digits, the same for equal facts on every machine."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def name_run(case: str, arm: str, repeat: int, identity: str) -> str:
    """Return the run's folder name, CASE-ARM-rREPEAT-IDENTITY, shortened to NAME_LENGTH characters."""
    words, end = f"{case}-{arm}", f"-r{repeat}-{identity[:10]}"
    room = NAME_LENGTH - len(end)
    if len(words) > room:
        words = f"{words[: room - 9]}-{hashlib.sha256(words.encode()).hexdigest()[:8]}"
    return words + end
