"""What a command costs is told before it begins, by the last time on this machine."""

from pathlib import Path

import pytest

from tasks.records.plan import RunPlan
from tasks.services.costs import AFTER, RUN, note_cost, tell_cost

FIELDS = {
    "comparison": "main-vs-branch", "trainer": "maxview", "target": "cpu", "backend": "local", "origins": {},
    "commit": None, "dirty": False, "versions": {}, "environment": {}, "argv": ("x",), "time_limit_s": 60,
    "directory": "/out/runs/x", "identity": "x",
}  # fmt: skip


def planned(case: str, arm: str, repeat: int, steps: int = 20) -> RunPlan:
    facts = {
        "case": case,
        "arm": arm,
        "repeat": repeat,
        "run_name": f"{case}-{arm}-{repeat}",
        "config": {"steps": steps},
    }
    return RunPlan.model_validate(FIELDS | facts)


PLANS = [planned(case, arm, repeat) for case in ("01", "02") for arm in ("a", "b") for repeat in range(3)]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MAXVIEW_CACHE", str(tmp_path))
    return tmp_path


def test_the_first_time_nothing_is_known() -> None:
    assert tell_cost(PLANS, frozenset(), ()).startswith("2 cases: 12 runs to train, ")
    assert "not known how long" in tell_cost(PLANS, frozenset(), ())


def test_the_runs_that_remain_are_counted_with_their_last_time() -> None:
    note_cost(RUN, PLANS[0], 99.0)
    note_cost(RUN, PLANS[0], 20.0)  # the last time counts
    note_cost(AFTER, PLANS[0], 30.0)
    told = tell_cost(PLANS[:6], frozenset({"01-a-0", "01-b-0"}), ())
    assert told.startswith("1 case: 4 runs to train (2 finished before), ")
    assert "about 110 s by the last time here" in told  # 4 × 20 + 30
    assert "about 110 s or more" in tell_cost([*PLANS[:6], PLANS[6]], frozenset({"01-a-0", "01-b-0"}), ())
    assert "about 30 s " in tell_cost(PLANS[:6], frozenset(plan.run_name for plan in PLANS[:6]), ())


def test_experiments_have_their_own_times_by_size() -> None:
    note_cost("function,time", PLANS[0], 71.0)
    assert tell_cost(PLANS[:2], frozenset(), ("time", "function")) == (
        "1 case: function and time without training, about 71 s by the last time here"
    )
    assert "not known" in tell_cost(PLANS[:2], frozenset(), ("time",))
    assert "not known" in tell_cost([planned("01", "a", 0, steps=2000)], frozenset(), ("time", "function"))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"x": "y"}'])
def test_a_damaged_cache_is_as_good_as_none(text: str, cache: Path) -> None:
    (cache / "costs.json").write_text(text)
    assert "not known" in tell_cost(PLANS, frozenset(), ())
    note_cost(RUN, PLANS[0], 1.0)
    assert "about 12 s" not in tell_cost(PLANS[:1], frozenset(), ())
    assert "about 1 s or more" in tell_cost(PLANS[:1], frozenset(), ())
