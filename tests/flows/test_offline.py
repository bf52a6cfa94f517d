"""Finished runs are published even if no server is left to track them."""

from pathlib import Path

import pytest

from flows.cli.commands.run_flow import publish_finished
from tasks.ingest.run_record import build_record
from tasks.records.plan import RunPlan
from tasks.records.run import Baseline, Blessing, RunRecord
from tasks.resolve.plans import Request, resolve
from tasks.scrape.read_log import scrape_run
from tasks.store.baselines import find_baseline, write_baseline
from tasks.store.store import Store, open_store

pytestmark = pytest.mark.flows

LOG = """\
XPK Start: Sat Apr 18 00:54:24 UTC 2026
completed step: 0, seconds: 1.500, TFLOP/s/device: 1.000, Tokens/s/device: 10.000, total_weights: 8, loss: 3.000
completed step: 1, seconds: 0.500, TFLOP/s/device: 3.000, Tokens/s/device: 30.000, total_weights: 8, loss: 2.500
XPK End: Sat Apr 18 00:55:24 UTC 2026
EXIT_CODE=0
"""


def finish(plan: RunPlan, store: Store) -> RunRecord:
    """Write the files of a finished run."""
    directory = store.run(plan.run_name).create()
    directory.log.write_text(LOG)
    directory.write_plan(plan)
    record = build_record(plan, directory, scrape_run(directory.log), ())
    directory.write_record(record)
    return record


def test_finished_cases_are_published_and_the_rest_is_left(tmp_path: Path) -> None:
    store = open_store(tmp_path / "out")
    wanted = Request(comparison="linen-vs-nnx", cases=("01_base", "03_dropout"), target="cpu", overrides=("steps=2",))
    plans = resolve(wanted, store.path)
    for plan in plans[:3]:  # both arms of the first case, and one of the second
        finish(plan, store)
    (page,) = publish_finished(plans, store)
    assert Path(page).parts[-4:-2] == ("linen-vs-nnx", "01_base")
    assert "01_base" in Path(page).read_text()
    assert "01_base" in (store.path / "index.html").read_text()
    assert publish_finished(plans, store, {("linen-vs-nnx", "01_base")}) == []


def test_a_candidate_is_compared_with_its_blessed_runs(tmp_path: Path) -> None:
    store, place = open_store(tmp_path / "out"), f"{tmp_path}/baselines/"
    wanted = Request(comparison="linen-vs-nnx", cases=("01_base",), target="cpu", overrides=("steps=2",))
    (accepted,) = (finish(plan, store) for plan in resolve(wanted, store.path) if plan.arm == "nnx")
    write_baseline(
        find_baseline(place, "linen-vs-nnx", "cpu", "01_base"),
        Baseline(
            comparison="linen-vs-nnx", case="01_base", target="cpu", shown={}, runs=(accepted,),
            blessings=(Blessing(day="2026-11-20", reason="first", commit=None),),
        ),
    )  # fmt: skip
    (plan,) = resolve(wanted.replace(blessed=place, fresh="again"), store.path)
    finish(plan, store)
    (page,) = publish_finished([plan], store)
    record = store.comparison("linen-vs-nnx", "01_base", Path(page).parent.name).read_comparison()
    assert record is not None
    assert record.baseline.ref == "blessed 2026-11-20"
    assert record.next_command.startswith("maxview compare linen-vs-nnx --case 01_base --target cpu ")
    assert f"--baseline {place}linen-vs-nnx/cpu/01_base.json" in record.next_command
