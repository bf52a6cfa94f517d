"""Plants one known change into a step's StableHLO: a fault, or a refactoring of the same function."""


def plant(text: str, kind: str) -> tuple[str, str]:
    """Return the changed program and where it was changed. Raises ValueError if it has no place for the change."""
    raise ValueError(f"unknown change {kind}, {len(text)}")
