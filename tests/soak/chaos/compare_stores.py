"""Reads the clock- and path-independent values of comparisons from their store, and compares two of them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.launch.logs import list_earlier_logs
from tasks.records.run import RunRecord
from tasks.store.store import Store

# fields that depend on a clock or a path
CLOCKED = {
    "step_time_s", "step_cpu_time_s", "step_wait_s", "device_s", "input_s", "save_s", "report_s", "seconds", "time",
    "line", "offset", "tflops_per_device", "tokens_per_s_per_device",
}  # fmt: skip
ROWS = ("final_loss", "parameters", "checkpoints", "loss_per_step", "values_per_step", "program_memory_gb", "jax")
STEP_LINE = re.compile(rb"completed step: (\d+),")
COMMIT_LINE = re.compile(rb"Finished saving checkpoint \(finalized tmp dir\) to `[^`]*/(\d+)`")


def canonical(out: Path) -> dict[str, Any]:
    """Return all recorded values of a comparison that depend on neither clock nor path."""
    found: dict[str, Any] = {}
    for directory in Store(out).runs():
        record = directory.read_record()
        if record is not None:
            found[record.arm] = canonical_run(record)
    for path in out.glob("comparisons/*/*/*/comparison.json"):
        record = json.loads(path.read_text())
        found["verdict"] = {
            "verdict": record["verdict"],
            "floors": {floor["name"]: floor["holds"] for floor in record["floors"]},
            "rows": {
                row["metric"]: (row["baseline"], row["candidate"], row["verdict"], row["reason"])
                for row in record["rows"]
                if row["metric"] in ROWS
            },
            "died": [side for side in ("baseline", "candidate") if record[side]["cause_of_death"]],
            "blocked": [finding["kind"] for finding in record["findings"] if finding["effect"] == "blocks"],
        }
    return found


def canonical_run(record: RunRecord) -> dict[str, Any]:
    """Return the values of one run; a repeated step's last values."""
    printed = {row["step"]: row["loss"] for row in record.reading.steps.iter_rows(named=True)}
    rows = [] if record.metrics is None else record.metrics.rows(named=True)
    metrics = {row["step"]: {key: row[key] for key in sorted(row.keys() - CLOCKED)} for row in rows}
    state = record.program.get("state") or {}
    return {
        "exit": record.reading.exit_code,
        "printed": printed,
        "metrics": metrics,
        "state": state,
        "first weights": record.program.get("initial_state"),
        "program": record.program.get("stablehlo_sha256"),
        "proofs": {proof.step: (proof.ok, proof.tree_digest, proof.arrays) for proof in record.proofs},
    }


def differences(found: Any, reference: Any, where: str = "") -> Iterator[str]:
    """Yield the differences of two canonical records."""
    if isinstance(found, dict) and isinstance(reference, dict):
        for key in sorted(found.keys() | reference.keys(), key=str):
            if key not in found:
                yield f"{where}/{key} lacks"
            elif key not in reference:
                yield f"{where}/{key} is new"
            else:
                yield from differences(found[key], reference[key], f"{where}/{key}")
    elif found != reference:
        yield f"{where}: {found!r:.100} for {reference!r:.100}"


def attempts_of(run: Path) -> list[bytes]:
    """Return each attempt's log, in order; the log of a successful run begins with its earlier attempts."""
    log = run / "log.txt"
    last = log.read_bytes() if log.exists() else b""
    found = []
    for path in list_earlier_logs(log):
        text = path.read_bytes()
        found.append(text)
        if last.startswith(text):
            last = last[len(text) :].removeprefix(b"" if text.endswith(b"\n") else b"\n")
    return [*found, last]


def look_at_attempts(run: Path, *, resumes: bool) -> tuple[int, int, int, list[str]]:
    """Return a run's numbers of starts, resumptions and repeated steps, and the problems with them."""
    problems, starts, resumed, repeated, done, last, ended = [], 0, 0, 0, -1, -1, False
    for text in attempts_of(run):
        starts += text.count(b"XPK Start:")
        if ended:
            problems.append(f"{run.name} was started again after it had ended well")
        steps = [int(match[1]) for match in STEP_LINE.finditer(text)]
        if resumes:
            resumed += b"restoring from this run's directory step" in text
            if steps and steps[0] <= done:
                repeated += done - steps[0] + 1
                if steps[0] < last + 1:
                    problems.append(f"{run.name} began at step {steps[0]} though step {last} was committed")
        done = max([done, *steps])
        last = max([last, *(int(match[1]) for match in COMMIT_LINE.finditer(text))])
        ended = text.endswith(b"EXIT_CODE=0\n")
    return starts, resumed, repeated, problems


def finished_well(out: Path) -> bool:
    """Return whether both runs ended with exit code 0 and the comparison has a page."""
    records = [directory.read_record() for directory in Store(out).runs()]
    ended = sum(record is not None and record.reading.exit_code == 0 for record in records)
    return ended == 2 and bool(list(out.glob("comparisons/*/*/*/index.html")))


def phase_of(out: Path) -> str:
    """Return the comparison's current phase as text."""
    done = {path.parent.name.split("-")[1] for path in out.glob("runs/*/record.json")}
    begun = {path.parent.name.split("-")[1]: path for path in out.glob("runs/*/log.txt")}
    if list(out.glob("comparisons/*/*/*/index.html")):
        return "published"
    running = sorted(begun.keys() - done)
    if not running:
        return f"after {len(done)} runs"
    text = begun[running[-1]].read_bytes()
    commits = COMMIT_LINE.findall(text)
    at = f"saved {int(commits[-1])}" if commits else "" if STEP_LINE.search(text) else "no step"
    return ", ".join([f"in {', '.join(running)}", *([at] if at else [])])
