"""Which versions of packages the compile ledger of a bisection with `--packages` belongs to."""

from pathlib import Path
from typing import Any

import pytest

import questions.bisect.flow as module
from questions.bisect.ledger import ledger_key
from questions.bisect.points import Span
from tasks.records.bisection import BisectedPoint, LedgerEntry
from tasks.records.plan import Commit, RunPlan
from tasks.resolve.options import BisectMore, BisectOptions
from tasks.resolve.refs import ResolvedRef
from tasks.services.running_jobs import Jobs
from tasks.store.store import open_store

pytestmark = pytest.mark.flows

SHAS = ("a" * 40, "b" * 40)
PLAN = RunPlan(
    comparison="main-vs-branch", case="01_base", arm="release", repeat=0, trainer="maxview", target="cpu",
    backend="local", config={}, origins={}, commit=None, dirty=False, versions={}, environment={}, argv=("python",),
    time_limit_s=60, run_name="a-run", directory="runs/a-run", identity="0123456789abcdef",
)  # fmt: skip


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, RunPlan]]:
    """Make plans without git and trainers; return the list of (key, plan) of every commit that is compiled."""
    found: list[tuple[str, RunPlan]] = []

    def plan_point(_request: object, span: Span, point: int, *_: object, **__: object) -> list[RunPlan]:
        version = span.points[point].version
        return [PLAN.replace(software=(*span.software, *([version] if version else [])))]

    def probe(plan: RunPlan, _target: object, _store: object, key: str) -> LedgerEntry:
        found.append((key, plan))
        return LedgerEntry(program=key * 4, memory_bytes=1000)

    monkeypatch.setattr(module, "plan_point", plan_point)
    monkeypatch.setattr(module, "probe_step", probe)
    monkeypatch.setattr(module.Search, "run_corners", lambda _self: ())
    return found


def find(packages: str, out: Path) -> None:
    points = tuple(
        BisectedPoint(commit=Commit(sha=sha, time="", author="", subject=sha[:1]), source=sha[:16]) for sha in SHAS
    )
    good, bad = (ResolvedRef(name=sha[:9], sha=sha) for sha in SHAS)
    span = Span(repository="r", named=True, good=good, bad=bad, points=points)
    more: dict[str, Any] = {"free": True, "packages": packages}
    request = BisectOptions(
        comparison="main-vs-branch", good=good.name, bad=bad.name, out=str(out), more=BisectMore(**more)
    )
    module.Search(request, span, "01_base", open_store(str(out)), Jobs("test"), PLAN, None).find()


def test_the_ledger_of_commits_with_a_held_package_is_not_the_ledger_of_the_same_commits_without_it(
    compiled: list[tuple[str, RunPlan]], tmp_path: Path
) -> None:
    find("jax==0.11.0..0.11.1", tmp_path / "o")
    assert [plan.software for _, plan in compiled] == [("jax==0.11.1",)] * 2
    assert {key for key, _ in compiled} == {ledger_key(sha[:16], compiled[0][1]) for sha in SHAS}
    find("", tmp_path / "o")
    keys = [key for key, _ in compiled]
    assert len(set(keys)) == 4
