"""Returns the loss curve of each run of both sides, from their logs; checks that the seeds of a side are equal runs."""

from collections.abc import Sequence

from tasks.ingest.given_logs import LoggedRun
from tasks.records.convergence import LossCurve
from tasks.records.log_reading import RunReading
from tasks.scrape.window import LogFormatError

# settings in which seeds of one training may differ
FREE = frozenset(
    {"seed", "train_samples", "run_name", "data_shuffle_seed", "init_weights_seed", "base_output_directory"}
)


def loss_curve(reading: RunReading) -> LossCurve:
    """Return a run's evaluation losses, over samples if each counts them; without evaluations, those of its steps."""
    rows = [row for row in reading.evals if row.get("loss") is not None and row.get("step") is not None]
    by_samples = bool(rows) and all(row.get("samples") for row in rows)
    if rows:
        points = {float(row["samples"] if by_samples else row["step"] + 1): float(row["loss"]) for row in rows}
    else:
        known = reading.steps.select("step", "loss").drop_nulls()
        points = {float(step + 1): loss for step, loss in known.iter_rows()}
    status = reading.facts.get("status", {}).get("value")
    ended = reading.error is None and status in (None, "success")
    return LossCurve(
        name=reading.name, positions=tuple(sorted(points)), losses=tuple(points[at] for at in sorted(points)),
        reached=ended, unit="samples" if by_samples else "steps",
    )  # fmt: skip


def check_equal_seeds(side: Sequence[LoggedRun], name: str) -> None:
    """Raise LogFormatError if the runs of a side differ in more than their seed; the message names the settings."""
    first = side[0].reading
    for run in side[1:]:
        changed = setting_changes(first, run.reading)
        if changed:
            raise LogFormatError(
                f"{run.file}: is no further seed of the {name}: {'; '.join(changed[:4])} against {side[0].file}; give "
                "runs that differ in their seed only"
            )


def setting_changes(before: RunReading, after: RunReading) -> list[str]:
    """Return `name: value → value` of every setting that both logs print differently, without FREE."""
    shared = sorted((before.config.keys() & after.config.keys()) - FREE)
    pairs = [(key, before.config[key], after.config[key]) for key in shared]
    counts = before.parameters.count, after.parameters.count
    if None not in counts:
        pairs.append(("parameters", str(counts[0]), str(counts[1])))
    return [f"{key}: {old} → {new}" for key, old, new in pairs if old != new]


def target_of(readings: Sequence[RunReading]) -> float | None:
    """Return the target loss that the logs name; None if they name none."""
    texts = (reading.config.get("target_accuracy") for reading in readings)
    return next((float(text) for text in texts if text), None)
