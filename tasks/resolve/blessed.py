"""Writes a comparison's candidate runs into a baseline file (blesses them), and reads them as a first arm's runs."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from configs.comparison import load_comparison
from configs.errors import ConfigError
from tasks.records.compared_case import ComparisonRecord
from tasks.records.plan import RunPlan
from tasks.records.run import Baseline, Blessing, RunRecord
from tasks.store.baselines import find_baseline, read_baseline, write_baseline
from tasks.store.store import Store


def bless(record: ComparisonRecord, store: Store, reason: str, place: str) -> tuple[Path, Blessing]:
    """Write the candidate's runs as the baseline of the comparison's case and target.

    place: the folder of the baseline files, or one file, as in `find_baseline`. Returns the file and the new blessing.
    Raises ConfigError if the candidate died, if the comparison only compiled (a preflight), or if a run is no longer in
    the store.
    """
    arm = record.candidate
    title = f"{record.comparison} {record.case} {record.id}"
    if record.programs is not None:
        raise ConfigError([f"{title} is a preflight: bless a comparison whose arms were trained"])
    if arm.has_died:
        raise ConfigError([f"{title}: {arm.label} did not end well: a failed run is no baseline"])
    runs = [store.run_of_log(log).read_record() for log in arm.logs]
    kept = tuple(_strip_machine(run) for run in runs if run is not None)
    if len(kept) < len(runs):
        raise ConfigError([f"{title}: a run of {arm.label} is no longer in {store.address}: compare again"])
    path = find_baseline(place, record.comparison, record.target, record.case)
    before = read_baseline(path)
    shown = {row.title: row.candidate_text for row in record.rows if row.candidate is not None}
    old = before.shown if before else {}
    blessing = Blessing(
        day=datetime.now(UTC).date().isoformat(),
        reason=reason,
        commit=arm.commit,
        values={name: (old.get(name, "–"), value) for name, value in shown.items() if old.get(name) != value},
    )
    baseline = Baseline(
        comparison=record.comparison,
        case=record.case,
        target=record.target,
        blessings=(*(before.blessings if before else ()), blessing),
        shown=shown,
        runs=kept,
    )
    return write_baseline(path, baseline), blessing


def _strip_machine(run: RunRecord) -> RunRecord:
    """Return the record without this machine's paths, arguments and settings: baseline files are kept in git."""
    unplaced: dict[str, object] = {
        "argv": (),
        "origins": {},
        "directory": "",
        "checkout": None,
        "version": None,
        "passed_on": (),
        "launch": None,
    }
    plan = run.plan and run.plan.replace(**unplaced)
    return run.replace(plan=plan, log="")


def check_baselines(plans: Sequence[RunPlan], place: str) -> None:
    """Check that every case of the plans has a baseline file.

    Raises ConfigError naming the missing files, StoreError for a damaged one.
    """
    cases = dict.fromkeys((plan.comparison, plan.target, plan.case) for plan in plans)
    missing = [case for case in cases if read_baseline(find_baseline(place, *case)) is None]
    if missing:
        raise ConfigError(
            [
                f"{find_baseline(place, *case)}: no blessed runs of {case[2]}; bless a comparison of it: "
                f'maxview bless {case[0]} --case {case[2]} --reason "…"'
                for case in missing
            ]
        )


def blessed_runs(plan: RunPlan, store: Store, place: str) -> list[RunRecord]:
    """Return the blessed runs to compare with a candidate's `plan`, and store them as runs of the first arm.

    Their plans have `aa` (an A/A control) if the candidate's plan has it, or if the candidate runs the blessed run's
    commit without uncommitted changes and without `software`. Raises ConfigError if there is no baseline file.
    """
    path = find_baseline(place, plan.comparison, plan.target, plan.case)
    baseline = read_baseline(path)
    if baseline is None:
        raise ConfigError([f"{path}: no such baseline file"])
    arm = load_comparison(plan.comparison).arms[0].name
    records = []
    for run in baseline.runs:
        assert run.plan is not None  # only ingested runs have no plan, and they cannot be blessed
        directory = store.run(f"blessed-{run.plan.run_name}").create()
        control = run.commit is not None and run.commit == plan.commit and not plan.dirty and not plan.software
        moved = {"directory": str(directory.path), "blessed": str(path), "ref": None, "version": None}
        kept = run.plan.replace(**moved, arm=arm, aa=plan.aa or control)
        label = " · ".join(filter(None, (f"blessed {baseline.blessings[-1].day}", run.commit and run.commit[:9])))
        record = run.replace(plan=kept, arm=arm, label=label, log=directory.log_address)
        directory.write_record(record)
        records.append(record)
    return records
