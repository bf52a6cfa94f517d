"""Comparisons, targets and tolerances: valid contents, and the messages for mistakes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from configs.comparison import Comparison, arm_layer, load_comparison, load_target
from configs.errors import ConfigError
from configs.names import find, list_names
from configs.verdict_rules import load_tolerances
from tests.wording.sentences import Wording

type Write = Callable[[str, str], Path]

COMPARISON = """\
# Two remat policies.
trainer: maxview
target: cpu
cases: [01_base, 03_dropout]
repeats: 3
tolerances: default
arms:
  - name: full
    set: {remat_policy: full}
  - name: minimal
    set: {remat_policy: minimal}
"""
TARGET = "# Here.\nbackend: local\ndevices: 1\nmodel: tiny\ntime_limit_s: 60\n"


def problems_of(read: Callable[[], object]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read()
    return caught.value.problems


def test_a_comparison_has_two_arms_cases_and_a_target(tree: Path, write: Write) -> None:
    write("comparisons/remat.yml", COMPARISON)
    spec = load_comparison("remat", root=tree)
    assert spec.question == "Two remat policies."
    assert spec.cases == ("01_base", "03_dropout")
    assert [arm.name for arm in spec.arms] == ["full", "minimal"]
    layer = arm_layer("remat", "minimal", root=tree)
    assert layer["remat_policy"].value == "minimal"
    assert layer["remat_policy"].origin.endswith("comparisons/remat.yml:11")


@pytest.mark.parametrize(
    ("old", "new", "line", "expected"),
    [
        ("repeats: 3", "repeats: true", 5, "repeats: should be a valid integer, got True"),
        ("repeats: 3", "repeats: 0", 5, "repeats: should be greater than or equal to 1, got 0"),
        ("repeats: 3", "repeats: 101", 5, "repeats: should be less than or equal to 100, got 101"),
        ("repeats: 3", "repeat: 3", 5, "unknown key 'repeat' (did you mean 'repeats'?)"),
        ("repeats: 3", "name: other", 5, "unknown key 'name'"),
        (
            "trainer: maxview",
            "trainer: maxtex",
            2,
            "trainer: unknown trainer 'maxtex' (did you mean 'maxtext'?); there are: maxview, maxtext, command",
        ),
        ("target: cpu", "target: cpu8", 3, "unknown target 'cpu8' (did you mean 'cpu-8'?)"),
        ("[01_base, 03_dropout]", "[01_base, dropout]", 4, "unknown case 'dropout' (did you mean '03_dropout'?)"),
        ("[01_base, 03_dropout]", "[]", 4, "cases: Tuple should have at least 1 item"),
        ("[01_base, 03_dropout]", "01_base", 4, "cases: should be a valid tuple"),
        ("tolerances: default", "tolerances: strict", 6, "unknown set of tolerances 'strict'"),
        ("name: full", "name: ../x", 8, "arms.0.name: a name begins with a letter or digit"),
        ("    set: {remat_policy: full}", "    sets: {}", 9, "unknown key 'sets' (did you mean 'set'?)"),
        ("# Two remat policies.", "", 1, "begin with a comment that says what is compared"),
    ],
)
def test_a_mistake_is_named_with_its_line(
    old: str, new: str, line: int, expected: str, tree: Path, write: Write
) -> None:
    path = write("comparisons/remat.yml", COMPARISON.replace(old, new, 1))
    problems = problems_of(lambda: load_comparison("remat", root=tree))
    assert any(problem.startswith(f"{path}:{line}: ") and expected in problem for problem in problems), problems


def test_missing_keys_are_named(tree: Path, write: Write) -> None:
    path = write("comparisons/remat.yml", COMPARISON.replace("trainer: maxview\n", ""))
    assert problems_of(lambda: load_comparison("remat", root=tree)) == [f"{path}: trainer is missing"]


@pytest.mark.parametrize("second", ["full", None])
def test_two_arms_with_different_names(second: str | None, tree: Path, write: Write, wording: Wording) -> None:
    text = (
        COMPARISON.replace("name: minimal", "name: full") if second else COMPARISON[: COMPARISON.index("  - name: m")]
    )
    write("comparisons/remat.yml", text)
    (problem,) = problems_of(lambda: load_comparison("remat", root=tree))
    assert f"{tree}/comparisons/remat.yml:" in problem
    wording("errors", problem, FOLDER=tree)


def test_all_mistakes_of_a_file_at_once(tree: Path, write: Write) -> None:
    text = COMPARISON.replace("repeats: 3", "repeats: no").replace("trainer: maxview", "trainer: x\nfoo: 1")
    write("comparisons/remat.yml", text)
    assert len(problems_of(lambda: load_comparison("remat", root=tree))) == 3


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        ("cases", "03_dropuot", "unknown case '03_dropuot' (did you mean '03_dropout'?); there are: 01_base, "),
        ("models", "seed", "unknown model 'seed' (did you mean 'seed-1b'?)"),
        ("targets", "../targets/cpu", "unknown target '../targets/cpu'"),
        ("comparisons", "", "unknown comparison ''; a name begins with a letter or digit and has only letters, "),
        ("comparisons", "linen", "unknown comparison 'linen' (did you mean 'linen-vs-nnx'?); there are: linen-vs"),
        ("tolerances", "none", "unknown set of tolerances 'none'"),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_names(kind: str, name: str, expected: str) -> None:
    (problem,) = problems_of(lambda: find(kind, name))  # type: ignore[arg-type]
    assert problem.startswith(expected)


def test_an_unknown_arm_is_refused(wording: Wording) -> None:
    (problem,) = problems_of(lambda: arm_layer("linen-vs-nnx", "nxx"))
    assert problem.startswith("unknown arm 'nxx'")
    assert "'nnx'?" in problem
    wording("errors", problem)


@pytest.mark.parametrize(
    ("addition", "line", "expected"),
    [
        ("environment: {XLA_FLAGS: 3}", 6, "environment.XLA_FLAGS: should be a valid string, got 3"),
        ("set: [1]", 6, "set: should be a valid dictionary, got [1]"),
        ("device: 8", 6, "unknown key 'device' (did you mean 'devices'?)"),
        (
            "pass_on: [HF_TOKEN=x]",
            6,
            "pass_on.0: String should match pattern '^[A-Za-z_][A-Za-z0-9_]*$', got 'HF_TOKEN=x'",
        ),
    ],
)
def test_a_mistake_in_a_target(addition: str, line: int, expected: str, tree: Path, write: Write) -> None:
    path = write("targets/here.yml", f"{TARGET}{addition}\n")
    assert problems_of(lambda: load_target("here", root=tree)) == [f"{path}:{line}: {expected}"]


@pytest.mark.parametrize(
    ("backend", "section", "expected"),
    [
        ("local", "xpk: {cluster: c}", "the key 'xpk' has settings of another backend than local: leave it out"),
        ("local", "local: {wrap: nice}", "the backend local has no settings: leave the key 'local' out"),
        ("xpk", "xpk: {clutser: c}", "xpk: unknown key 'clutser' (did you mean 'cluster'?)"),
        ("xkp", "", "unknown backend 'xkp' (did you mean 'xpk'?); there are: local, "),
    ],
)
def test_a_backend_requires_its_section(backend: str, section: str, expected: str, tree: Path, write: Write) -> None:
    write("targets/here.yml", f"{TARGET.replace('local', backend)}{section}\n")
    (problem,) = problems_of(lambda: load_target("here", root=tree))
    assert expected in problem


@pytest.mark.parametrize("name", ["GITHUB_TOKEN", "MAXVIEW_GITHUB_TOKEN", "MAXVIEW_WEBHOOK_URL", "PREFECT_API_KEY"])
def test_a_target_cannot_pass_on_maxviews_own_variables(name: str, tree: Path, write: Write, wording: Wording) -> None:
    write("targets/here.yml", f"{TARGET}pass_on: [HF_TOKEN, {name}]\n")
    (problem,) = problems_of(lambda: load_target("here", root=tree))
    assert f"pass_on: {name} " in problem
    wording("errors", problem, FOLDER=tree, VARIABLE=name)


def test_a_target_counts_devices_in_numbers(tree: Path, write: Write) -> None:
    path = write("targets/here.yml", TARGET.replace("devices: 1", "devices: true"))
    expected = f"{path}:3: devices: should be a valid integer, got True"
    assert problems_of(lambda: load_target("here", root=tree)) == [expected]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("{relative: 0.1, absolute: 1.0, why: both}", "set exactly one of relative and absolute"),
        ("{why: neither}", "set exactly one of relative and absolute"),
        ("{absolute: 1.0}", "why is missing"),
        ("{absolute: 1.0, why: ''}", "why: String should have at least 1 character"),
        ("{absolute: -1.0, why: negative}", "absolute: should be greater than or equal to 0"),
        ("{absolute: true, why: a bool}", "absolute: should be a valid number, got True"),
        ("{absolute: .inf, why: everything}", "absolute: should be a finite number"),
        ("{absolut: 1.0, why: typo}", "unknown key 'absolut' (did you mean 'absolute'?)"),
        ("0.1", "should be a valid dictionary"),
    ],
)
def test_a_mistake_in_a_tolerance(value: str, expected: str, tree: Path, write: Write) -> None:
    lines = (tree / "tolerances/default.yml").read_text().splitlines()
    number = next(n for n, line in enumerate(lines) if line.startswith("loss:"))
    lines[number] = f"loss: {value}"
    path = write("tolerances/mine.yml", "\n".join(lines))
    problems = problems_of(lambda: load_tolerances("mine", root=tree))
    assert any(p.startswith(f"{path}:{number + 1}: loss: ") and expected in p for p in problems), problems


def test_a_tolerance_of_an_unknown_metric_is_refused(tree: Path, write: Write, wording: Wording) -> None:
    path = write("tolerances/mine.yml", 'step_time: {relative: 0.1, why: "a typo"}\n')
    problems = problems_of(lambda: load_tolerances("mine", root=tree))
    assert problems[0].startswith(f"{path}:1: unknown metric 'step_time'")
    wording("errors", problems[0], FOLDER=tree)
    assert f"{path}: loss is missing" in problems
    assert f"{path}: step_time_s is missing" not in problems  # the device's noise applies


def test_names_are_those_of_the_files(tree: Path, write: Write) -> None:
    write("cases/90_new.yml", "# New.\n")
    assert set(list_names("cases", root=tree)) - set(list_names("cases")) == {"90_new"}


def test_starts_are_shared_on_request_and_between_implementations_of_maxtext() -> None:
    arms = [{"name": "a", "set": {"pure_nnx": False}}, {"name": "b", "set": {"pure_nnx": True}}]
    fields: dict[str, Any] = {"name": "x", "question": "?", "target": "cpu", "cases": ["01_base"], "repeats": 1,
                              "tolerances": "default", "arms": arms}  # fmt: skip

    def shares(**changes: Any) -> bool:
        return Comparison.model_validate(fields | {"trainer": "maxtext"} | changes).shares_start

    assert shares()
    assert not shares(start="own")
    assert not shares(trainer="maxview")
    assert shares(trainer="maxview", start="shared")
    assert not shares(arms=[{"name": "a"}, {"name": "b"}])  # two releases draw alike
