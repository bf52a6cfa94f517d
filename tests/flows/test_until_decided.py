"""`--until-decided` inside the flow: the added runs, the looks at the verdict, and the messages."""

from types import SimpleNamespace
from typing import Any

import pytest

from flows.compare import run_until_decided
from tasks.diff.examine.examine_case import CaseRuns
from tasks.diff.judge.repeat_rule import NextLook
from tasks.records.run import RunRecord
from tasks.services.events import EVENTS, Event, Replanned

pytestmark = pytest.mark.flows


def test_runs_are_added_until_the_verdict_is_known() -> None:
    all_plans: list[Any] = [
        SimpleNamespace(case=case, repeat=repeat, arm=arm) for case in "ab" for repeat in range(8) for arm in "xy"
    ]
    looks: list[tuple[int | None, int]] = []
    ran: list[tuple[str, int, str]] = []

    def look(runs: CaseRuns) -> Any:
        looks.append((runs.look, len(runs.runs)))
        return SimpleNamespace(case=runs.case)

    def decide(_: Any, repeats: int) -> NextLook:
        return {
            1: NextLook(repeats=3, why="not yet"),
            3: NextLook(repeats=5, why="still not"),
            5: NextLook(repeats=None, why=""),
        }[repeats]

    def run(plans: list[Any]) -> list[Any]:
        ran.extend((plan.case, plan.repeat, plan.arm) for plan in plans)
        return [RunRecord.model_construct(arm=plan.arm) for plan in plans]

    heard: list[Event] = []
    runs = tuple(RunRecord.model_construct(arm=arm) for arm in "xy")
    first = CaseRuns.model_construct(comparison="c", case="b", target="cpu", runs=runs, cases=2, look=1)
    with EVENTS.heard_by(heard.append):
        result = run_until_decided(first, all_plans, look=look, decide=decide, run=run)
    assert result.case == "b"
    assert looks == [(1, 2), (2, 6), (3, 10)]
    assert ran == [("b", repeat, arm) for repeat in (1, 2, 3, 4) for arm in "xy"]  # A B A B, no other case
    extensions = [(len(event.plans), event.why) for event in heard if isinstance(event, Replanned)]
    assert extensions == [(4, "not yet"), (4, "still not"), (0, "")]
