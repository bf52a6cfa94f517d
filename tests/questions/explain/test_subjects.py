"""A stored explanation is used again only for the commits and the answer that it was made for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from questions.explain import subjects
from tasks.records.compared_case import ArmSummary, ComparisonRecord
from tasks.records.explanation import Explanation
from tasks.records.function import FunctionComparison
from tasks.records.plan import RunPlan
from tasks.store.store import Store


def record_of(commit: str, explanation: Explanation | None = None) -> ComparisonRecord:
    unknown = dict.fromkeys(("branch", "jax", "exit_code", "cause_of_death", "started"))
    arms = [ArmSummary(name=name, label=name, commit=sha, runs=(), logs=(), **unknown)
            for name, sha in (("baseline", "1" * 40), ("branch", commit))]  # fmt: skip
    return ComparisonRecord(
        id="x", comparison="main-vs-branch", case="01_base", target="cpu", created="2026-11-21", question="?",
        baseline=arms[0], candidate=arms[1], verdict="changed", headline="h", findings=(), rows=(),
        explanation=explanation,
    )  # fmt: skip


def test_a_commit_with_the_code_of_a_working_tree_gets_an_explanation_of_its_own(
    make_plan: Callable[..., RunPlan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []

    def explain(plans: Any, *_: Any, **__: Any) -> Explanation:
        made.append(plans)
        return Explanation(headline="new")

    monkeypatch.setattr(subjects, "explain_plans", explain)
    store, plans = Store(tmp_path), (make_plan(""), make_plan(""))
    tree, commit = record_of("2" * 40), record_of("3" * 40)
    store.comparison("main-vs-branch", "01_base", "x").write_comparison(
        tree.replace(explanation=Explanation(headline="stored"))
    )
    assert subjects.explain_comparison(tree, plans, store).headline == "stored"
    assert subjects.explain_comparison(commit, plans, store).headline == "new"
    answered = tree.replace(function=FunctionComparison(answer="another", sentence="another function"))
    assert subjects.explain_comparison(answered, plans, store).headline == "new"
    assert len(made) == 2
