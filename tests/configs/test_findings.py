"""Effects of findings on the verdict: the default set, changes of single kinds, and the messages for mistakes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from configs.comparison import load_comparison
from configs.errors import ConfigError
from configs.findings import KINDS
from configs.verdict_rules import load_effects
from tests.wording.sentences import Wording

type Write = Callable[[str, str], Path]

COMPARISON = """\
# A or B?
trainer: maxview
target: cpu
cases: [01_base]
repeats: 1
tolerances: default
arms:
  - name: a
    set: {remat_policy: full}
  - name: b
    set: {remat_policy: minimal}
"""


def problems_of(read: Callable[[], object]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read()
    return caught.value.problems


def test_the_default_set_has_every_kind() -> None:
    assert set(load_effects()) == set(KINDS)


def test_a_comparison_changes_single_kinds(tree: Path, write: Write) -> None:
    own = 'findings:\n  jax-version: {effect: note, why: "meant"}\n  mesh: {effect: ignore, why: "meant"}\n'
    write("comparisons/ab.yml", COMPARISON + own)
    spec = load_comparison("ab", root=tree)
    effects = load_effects(spec.comparability, "ab", root=tree)
    assert (effects["jax-version"], effects["mesh"]) == ("note", "ignore")
    changed = {kind for kind, effect in load_effects().items() if effects[kind] != effect}
    assert changed == {"jax-version", "mesh"}


def test_a_comparison_names_another_set(tree: Path, write: Write) -> None:
    strict = "".join(f'{kind}: {{effect: blocks, why: "strict"}}\n' for kind in KINDS)
    write("comparability/strict.yml", strict)
    write("comparisons/ab.yml", COMPARISON + "comparability: strict\n")
    spec = load_comparison("ab", root=tree)
    assert set(load_effects(spec.comparability, "ab", root=tree).values()) == {"blocks"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("comparability: strict", "unknown set of findings 'strict'"),
        ("findings: {jax-versions: {effect: note, why: x}}", "unknown finding 'jax-versions' (did you mean 'jax-ver"),
        ("findings: {mesh: {effect: blocked, why: x}}", "mesh: effect: should be 'blocks', 'qualifies', 'note' or 'ig"),
        ("findings: {mesh: {effect: note}}", "mesh: why is missing"),
        ("findings: {mesh: note}", "mesh: "),
        ("findings: [mesh]", "findings: should be a valid dictionary"),
        ("findings: ", "findings: should be a valid dictionary"),
    ],
)
def test_mistakes_are_reported_with_their_line(line: str, expected: str, tree: Path, write: Write) -> None:
    write("comparisons/ab.yml", f"{COMPARISON}{line}\n")
    problems = problems_of(lambda: load_comparison("ab", root=tree))
    assert any("comparisons/ab.yml:12: " in problem and expected in problem for problem in problems), problems


def test_a_set_must_list_all_kinds(tree: Path, write: Write, wording: Wording) -> None:
    write("comparability/short.yml", 'mesh: {effect: note, why: "x"}\nmash: {effect: note, why: "x"}\n')
    problems = problems_of(lambda: load_effects("short", root=tree))
    (problem,) = problems
    assert "short.yml:2: unknown finding 'mash'" in problem
    wording("errors", problem, FOLDER=tree)
    write("comparability/short.yml", 'mesh: {effect: note, why: "x"}\n')
    missing = problems_of(lambda: load_effects("short", root=tree))
    assert len(missing) == len(KINDS) - 1
    assert any(line.endswith("short.yml: died is missing") for line in missing)
