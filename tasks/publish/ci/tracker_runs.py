"""In: comparisons. Out: a run per comparison in the user's experiment tracker, written with the tracker's own client.

The clients are optional packages, and are imported when they are used. Server, folder and login are theirs:
WANDB_MODE, WANDB_API_KEY, MLFLOW_TRACKING_URI, ….
"""

import importlib.util
from collections.abc import Callable, Sequence
from typing import Literal

from tasks.publish.content.brief import make_brief
from tasks.records.compared_case import ComparisonRecord

Tracker = Literal["wandb", "mlflow"]
PROJECT = "maxview"  # of W&B, if WANDB_PROJECT is not set, and MLflow's experiment
MAX_TAG = 64  # characters of W&B's tags


def check_clients(trackers: Sequence[Tracker]) -> None:
    """Raise ValueError if a tracker's client is not installed."""
    missing = [name for name in trackers if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(
            f"--to {missing[0]}: its client is not installed; type: uv sync --extra {missing[0]}, "
            f"or pip install {missing[0]}"
        )


def write_verdicts(tracker: Tracker, records: Sequence[ComparisonRecord], pages: Sequence[str]) -> list[str]:
    """Write a run per comparison; return the place of each. pages: the addresses of their pages.

    Raises ValueError if the tracker's client cannot write.
    """
    write = WRITERS[tracker]
    try:
        return [write(record, describe(record, page)) for record, page in zip(records, pages, strict=True)]
    except Exception as error:  # the clients have no common class of errors
        raise ValueError(
            f"--to {tracker}: the verdict was not written: {error}; the comparison is complete: {', '.join(pages)}"
        ) from error


def describe(record: ComparisonRecord, page: str) -> dict[str, str]:
    """Return a comparison's verdict, headline, arms, page and deciding rows, by names that all trackers take."""
    brief = make_brief(record)
    found = {
        "verdict": "died" if record.has_died else record.verdict, "headline": record.headline,
        "comparison": record.comparison, "case": record.case, "target": record.target, "page": page,
    }  # fmt: skip
    for side, arm in (("baseline", record.baseline), ("candidate", record.candidate)):
        found[side] = f"{arm.name} {record.commit_in_clone(arm) or ''}".strip()
    for row in brief.rows:
        found[f"rows/{row.metric}"] = ", ".join(part for part in (row.values, row.percent, row.verdict) if part)
    if brief.gate:
        found["gate"] = brief.gate
    return found


def _write_wandb(record: ComparisonRecord, fields: dict[str, str]) -> str:
    import wandb

    tags = [fields["verdict"], record.case, record.comparison]
    run = wandb.init(
        project=wandb.setup().settings.project or PROJECT, name=f"{record.comparison} {record.case}",
        job_type="comparison", tags=[tag[:MAX_TAG] for tag in tags], notes=fields["headline"], reinit="create_new",
    )  # fmt: skip
    run.summary.update(fields)
    place = str(run.url or run.dir)
    run.finish()
    return place


def _write_mlflow(record: ComparisonRecord, fields: dict[str, str]) -> str:
    from mlflow import MlflowClient

    client = MlflowClient()
    known = client.get_experiment_by_name(PROJECT)
    experiment = known.experiment_id if known is not None else client.create_experiment(PROJECT)
    run = client.create_run(experiment, run_name=f"{record.comparison} {record.case}", tags=fields)
    client.set_terminated(run.info.run_id)
    return f"run {run.info.run_id} of experiment {PROJECT}"


WRITERS: dict[Tracker, Callable[[ComparisonRecord, dict[str, str]], str]] = {
    "wandb": _write_wandb,
    "mlflow": _write_mlflow,
}
