"""The command `maxview ingest`, which runs the flow `ingest`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from flows.cli.commands.common_options import Full, Json, absolute_place, check_store
from flows.cli.commands.report_options import Reports
from flows.cli.commands.run_flow import run_flow
from tasks.records.text import visible
from tasks.resolve.options import IngestOptions


def ingest(
    logs: Annotated[
        list[str] | None,
        Parameter(
            help="Two logs, baseline first, or one saved MaxView page with both: files, folders or gs://; also folders "
            "of TensorBoard, W&B, MLflow and Trackio, or DATABASE:RUN."
        ),
    ] = None,
    /,
    *,
    options: Annotated[IngestOptions, Parameter(name="*")] = IngestOptions(),
    reference: Annotated[
        list[str] | None,
        Parameter(
            help="Judge convergence instead: the logs of three or more seeds of the reference, with --candidate LOG….",
            consume_multiple=True,
            negative="",
        ),
    ] = None,
    target_loss: Annotated[
        float | None, Parameter(help="Loss to reach, with --reference; default: the one that the logs name.")
    ] = None,
    reports: Annotated[Reports, Parameter(name="*")] = Reports(),
    full: Full = False,
    json_: Json = False,
) -> int:
    """Compare runs from their logs."""
    if reference:
        return ingest_seeds(reference, options.candidate, target_loss=target_loss, as_json=json_, out=options.out)
    from flows.cli.byte_progress import open_stderr, show_reads
    from tasks.diff.compare_logs import check_words
    from tasks.ingest.given_logs import assign_sides, open_arms

    check_words(options.target, options.tolerances)
    sides = assign_sides(logs or (), options.baseline, options.candidate)
    with show_reads(open_stderr()), open_arms(sides, aa=options.aa) as arms:  # raises before a flow run begins
        notes = arms.notes
    show_notes(notes)
    check_store(options.out)
    reports.check()

    given = {"logs": logs or (), "baseline": options.baseline, "candidate": options.candidate}
    places = {side: tuple(map(absolute_place, words)) for side, words in given.items()}
    return run_flow("ingest", dict(options) | places, as_json=json_, full=full, reports=reports)


def ingest_seeds(
    reference: Sequence[str], candidate: Sequence[str], *, target_loss: float | None, as_json: bool, out: str
) -> int:
    """Judge whether the candidate converges as the reference's seeds do; write the page; return the exit status."""
    from flows.cli.byte_progress import open_stderr, show_reads
    from tasks.diff.judge.convergence import convergence_status, judge_convergence
    from tasks.ingest.given_logs import open_arms
    from tasks.ingest.loss_curves import check_equal_seeds, loss_curve, setting_changes, target_of
    from tasks.publish.page.convergence import convergence_page
    from tasks.publish.terminal.convergence import show_convergence
    from tasks.scrape.window import LogFormatError

    if not candidate:
        raise LogFormatError("there is no log of the candidate: maxview ingest --reference LOG… --candidate LOG…")
    with show_reads(open_stderr()), open_arms((reference, candidate)) as arms:
        for side, name in ((arms.baseline, "reference"), (arms.candidate, "candidate")):
            check_equal_seeds(side, name)
        left, right = ([run.reading for run in side] for side in (arms.baseline, arms.candidate))
        notes = tuple(f"the candidate differs in {change}" for change in setting_changes(left[0], right[0]))
        target = target_of(left) if target_loss is None else target_loss
        record = judge_convergence([loss_curve(run) for run in left], [loss_curve(run) for run in right], target=target)
    record = record.replace(notes=notes)
    show_notes(arms.notes)
    check_store(out)
    if as_json:
        print(record.model_dump_json())
    else:
        print(show_convergence(record))
        if "://" not in out:
            page = Path(absolute_place(out), "convergence.html")
            page.write_text(convergence_page(record), encoding="utf-8")
            print(f"\n  page  {page}")
    return convergence_status([record])


def show_notes(notes: Sequence[str]) -> None:
    """Print what was read of trackers on standard error."""
    for note in notes:
        print(visible(note), file=sys.stderr)
