"""Reads the files of an observed process into an `Observation`."""

from pathlib import Path

from tasks.records.observation import FILE, LOG, Observation

TAIL = 3  # last lines of the log in a note


def read_observation(folder: Path, arm: str = "") -> Observation:
    """Return the observation in a folder; if it cannot be read, `step` is None and a note has the reason."""
    path = folder / FILE
    try:
        return Observation.model_validate_json(path.read_bytes()).model_copy(update={"arm": arm})
    except FileNotFoundError:
        return Observation(arm=arm, notes=(explain_nothing(folder),))
    except (OSError, ValueError) as error:
        return Observation(arm=arm, notes=(f"{path}: cannot be read: {error}",))


def explain_nothing(folder: Path) -> str:
    """Return why a process left no observation, from its log."""
    log = folder / LOG
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    if "[maxview] nothing is observed" in text:
        return next(line for line in text.splitlines() if "[maxview] nothing is observed" in line).strip()
    if "[maxview] observing" not in text:
        return "no step was found: the process imported no JAX, or its Python reads no PYTHONPATH"
    last = " | ".join(line.strip() for line in text.splitlines()[-TAIL:])
    return f"no step was found: the process ended before it; see {log} ({last})"
