"""The twins of a night: one evaluation per trainer, of its pinned commit, without the cases in quarantine."""

from pathlib import Path
from typing import Any

import pytest
from prefect.states import Completed, Failed

from questions.invariants.page import publish_invariants
from questions.invariants.twin_records import InvariantsRecord, TwinResult
from questions.nightly import flow
from tasks.records.night import NightCell, NightPlan
from tasks.records.plan import ArmOverrides
from tasks.services.prefect_ui import CHANGED
from tasks.store.store import open_store

pytestmark = pytest.mark.flows

SCAN = TwinResult(
    twin="scan", title="scan = unrolled", why="one loop", case="01_base", answer="another", sentence="gradients differ"
)


def test_a_night_has_an_answer_for_each_trainer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store, pinned = open_store(str(tmp_path)), ArmOverrides(baseline=f"main:{'a' * 40}", branch=f"main:{'b' * 40}")
    cells = (
        NightCell(comparison="main-vs-branch", case="01_base", arms=pinned),
        NightCell(comparison="main-vs-branch", case="03_dropout", arms=pinned, quarantine="known"),
        NightCell(comparison="linen-vs-nnx", case="01_base"),
    )
    plan = NightPlan(
        id="2026-11-25", created="2026-11-25T03:00:00+00:00", target="cpu", slices=1, request="x", cells=cells,
        invariants=True,
    )  # fmt: skip
    called = []

    def evaluate(**options: Any) -> Any:
        called.append((options["ref"], options["cases"]))
        if not options["ref"]:
            return Failed(name="Failed", message="CheckoutError: no clone")
        record = InvariantsRecord(
            id="a", trainer="maxview", version="main b", commit="b" * 40, created="2026-11-25", results=(SCAN,)
        )
        publish_invariants(record, store)
        return Failed(name=CHANGED, message=record.headline)

    monkeypatch.setattr(flow, "invariants", evaluate)
    broken, failed = flow.evaluate_night_twins(plan, store)
    assert called == [(f"main:{'b' * 40}", ("01_base",)), ("", ("01_base",))]
    assert (broken.outcome, broken.broken) == ("another", ("scan = unrolled",))
    assert Path(broken.page).is_file()
    assert (failed.outcome, failed.headline) == ("failed", "CheckoutError: no clone")
    monkeypatch.setattr(flow, "invariants", lambda **_: Completed(name="Unknown"))
    assert [one.outcome for one in flow.evaluate_night_twins(plan, store)] == ["unknown", "unknown"]
