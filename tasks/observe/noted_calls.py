"""Gives a run whose log has no step the calls of its step that the recorder noted: rows in its log, and metrics."""

import json
from pathlib import Path
from typing import Any

from maxview_probe.observe.observation_files import CALLS
from tasks.records.plan import RunPlan
from tasks.records.run import START_FOLDER
from tasks.store.atomic import write_bytes_atomically

END = b"XPK End: "  # the launcher's line at the end of a log
NOTE = "[maxview] the log has no step: these are the calls of the step, with the scalars that it returned"


def add_calls(plan: RunPlan, directory: Path, log: Path) -> bool:
    """Insert a row per noted call before the end of a run's log, and write them as metrics; False without any."""
    rows = _read(directory / START_FOLDER / CALLS)
    if not rows:
        return False
    text = log.read_bytes()
    at = text.rfind(END)
    at = len(text) if at < 0 else at
    lines = "\n".join([NOTE, *map(_show, rows)]) + "\n"
    write_bytes_atomically(log, text[:at] + lines.encode() + text[at:])
    metrics = directory / plan.files.metrics
    if not metrics.exists():
        write_bytes_atomically(metrics, "".join(json.dumps(row) + "\n" for row in rows).encode())
    return True


def _read(path: Path) -> list[dict[str, Any]]:
    """Return the noted calls; the last line of a process that was killed may be cut."""
    rows = []
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            rows.append(json.loads(line))
    except FileNotFoundError:
        return []
    except ValueError:
        pass
    return rows


def _show(row: dict[str, Any]) -> str:
    """Return a row as MaxText prints it; the metrics have its loss in full precision."""
    loss = f", loss: {row['loss']:.3f}" if "loss" in row else ""
    return f"completed step: {row['step']}, seconds: {row['step_time_s']:.6f}{loss}"
