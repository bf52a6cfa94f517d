"""Commits that the compile ledger excludes, and metrics that it decides alone."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from configs.comparison import load_target
from configs.verdict_rules import Tolerance
from questions.bisect.bisected_metric import DIED, BisectedMetric, read_metric
from questions.bisect.corners import compare_corners, contrast_corners
from questions.bisect.ledger import compile_argv, make_entry, search_ledger, show_size, weigh_commits
from questions.bisect.page import render_ledger
from tasks.diff.examine.noise import Noise
from tasks.records.bisection import BisectedPoint, LedgerEntry
from tasks.records.compared_case import Decision
from tasks.records.plan import Commit, RunPlan
from tasks.store.store import open_store

pytestmark = pytest.mark.long

TIME = read_metric("Step time, steady")
LOSS = read_metric("loss")
MEMORY = read_metric("memory")
PROGRAM = read_metric("program")


def points(sources: str, programs: str, memory: str = "") -> list[BisectedPoint]:
    """One point per letter: equal letters are equal sources, equal programs; `-` does not compile."""
    found = []
    for number, (source, program) in enumerate(zip(sources, programs, strict=True)):
        entry = LedgerEntry(error="SyntaxError: x") if program == "-" else LedgerEntry(
            program=program * 64, memory_bytes=int(memory[number]) * 1000 if memory else 1000
        )  # fmt: skip
        commit = Commit(sha=f"{number:040x}", time="", author="", subject=f"commit {number}")
        found.append(BisectedPoint(commit=commit, source=source, ledger=entry))
    return found


def test_equal_source_is_ruled_out_for_everything_and_an_equal_program_for_memory() -> None:
    line = weigh_commits(points("aabbcd", "ppppqq"), TIME)
    assert [weight > 0 for weight in line.weights] == [False, False, True, False, True, True]
    assert line.ruled_out == {1: "no source of the trainer changed", 3: "no source of the trainer changed"}
    # with an equal program only the host loop can have changed: possible, but tried last
    assert line.weights[4] == 1.0
    assert line.weights[2] < line.weights[4] / 10
    assert line.weights[5] < line.weights[4] / 10
    # each group has the runs of its first commit; the last group has the runs of the bad end
    assert line.alike == (0, 0, 2, 2, 4, 5)
    memory = weigh_commits(points("aabbcd", "ppppqq"), MEMORY)
    assert [weight > 0 for weight in memory.weights] == [False, False, False, False, True, False]
    assert memory.alike == (0, 0, 0, 0, 5, 5)
    died = weigh_commits(points("aabbcd", "ppppqq"), DIED)
    assert died.weights[2] == died.weights[4]


def test_thirty_of_thirty_two_commits_without_source_are_never_trained() -> None:
    sources = "a" * 10 + "b" * 10 + "c" * 13
    line = weigh_commits(points(sources, sources), LOSS)
    assert len(line.ruled_out) == 30
    assert sorted(set(line.alike)) == [0, 10, 32]


def test_memory_and_program_need_no_run() -> None:
    grown = points("abcdef", "pqrstu", "111299")
    found = search_ledger(grown, MEMORY)
    assert found is not None
    assert (found.culprit, found.before) == (3, 2)
    program = search_ledger(points("abcdef", "ppqqrr"), PROGRAM)
    assert program is not None
    assert program.culprit == 2
    assert any("{4}" in note for note in program.notes)  # it changes again there
    assert search_ledger(grown, LOSS) is None
    same = search_ledger(points("abc", "ppp"), PROGRAM)
    assert same is not None
    assert same.outcome == "no difference"


def test_an_uncompilable_commit_leaves_a_range_and_a_reverted_change_is_reported() -> None:
    hidden = search_ledger(points("abcdef", "pp--qq"), PROGRAM)
    assert hidden is not None
    assert (hidden.outcome, hidden.suspects) == ("range", (2, 3, 4))
    back = search_ledger(points("abcdef", "pqqppq"), PROGRAM)
    assert back is not None
    assert back.culprit == 5
    assert "comes, goes and comes again" in back.notes[0]


def test_the_ledger_shows_an_equal_program_as_a_ditto_mark() -> None:
    lines = render_ledger(points("abc", "ppq"))
    assert lines[1].split()[:2] == ["000000000", "ppppppppp"]
    assert lines[2].split()[1] == "″"
    assert lines[3].split()[1] == "qqqqqqqqq"


@pytest.mark.parametrize(("size", "shown"), [(None, "–"), (0, "0"), (999, "999"), (15_900_000, "15.9M")])
def test_sizes_are_shown_with_prefixes(size: int | None, shown: str) -> None:
    assert show_size(size) == shown


def test_our_trainer_compiles_through_the_recorder_and_a_custom_command_is_unchanged(make_plan: object) -> None:
    plan = make_plan("pass")  # type: ignore[operator]
    argv = ("python", "-m", "model.train", f"{plan.directory}/config.yml")
    words = compile_argv(plan.replace(argv=argv, trainer="maxview"), load_target("cpu"),
                        Path("/there/key"), Path("/there/programs"))  # fmt: skip
    assert words is not None
    assert words[-2:] == ("model.train", "/there/key/config.yml")
    assert words[words.index("--out") + 1] == "/there/key"
    assert "--stop" in words
    command = plan.replace(argv=argv, trainer="command")
    assert compile_argv(command, load_target("cpu"), Path("/x"), Path("/y")) is None


@pytest.mark.parametrize("trainer", ["maxview", "maxtext"])
def test_the_compiled_source_is_the_checkouts(trainer: str, make_plan: Callable[..., RunPlan], tmp_path: Path) -> None:
    """The module is in no environment: only the checkout has it, and each commit multiplies by another number."""
    store, programs = open_store(str(tmp_path / "out")), []
    for factor in (2, 3):
        source = tmp_path / f"commit{factor}" / "src"
        source.mkdir(parents=True)
        (source / "pre_train.py").write_text(f"import jax\njax.jit(lambda x: x * {factor}.0).lower(1.0).compile()\n")
        argv = (sys.executable, "-m", "pre_train")
        plan = make_plan("pass").replace(argv=argv, trainer=trainer, checkout=str(source))
        entry = make_entry(plan, load_target("cpu"), store, f"key{factor}")
        assert not entry.error
        programs.append(entry.program)
    assert len(set(programs)) == 2


TPU = Noise(scale=0.004, df=10), Tolerance(relative=0.02, least=0.005, why="x", least_why="x")  # a clock, as stated


def test_four_corners_separate_code_packages_and_their_interaction() -> None:
    random = np.random.default_rng(3)

    def runs(level: float) -> list[float]:
        return [level + float(random.normal(0, 0.002)) for _ in range(3)]

    code, packages, both = 0.00, 0.06, 0.04
    levels = [runs(0.0), runs(code), runs(packages), runs(code + packages + both)]
    found = {one.name: one for one in contrast_corners(levels, *TPU)}
    # by construction: each effect is averaged over the other factor, so it includes half of the interaction
    for name, true in (("code", code + both / 2), ("packages", packages + both / 2), ("interaction", both)):
        assert found[name].low < true < found[name].high  # type: ignore[operator]
        assert found[name].verdict == "regressed"
    alone = {one.name: one for one in contrast_corners([runs(0), runs(0), runs(0.06), runs(0.06)], *TPU)}
    assert (alone["code"].verdict, alone["packages"].verdict) == ("same", "regressed")


def test_four_corners_without_noise() -> None:
    truth = {0: "a", 1: "a", 2: "b", 3: "b"}

    def compare(before: int, after: int) -> Decision:
        return Decision(verdict="same" if truth[before] == truth[after] else "changed", reason="")

    found = {one.name: one.verdict for one in compare_corners(compare)}
    assert found == {"code": "same", "packages": "changed", "interaction": "same"}


def test_metrics_are_found_by_title_id_and_word() -> None:
    assert read_metric("step time, steady") == read_metric("step_time_s") == TIME
    assert TIME.is_time
    assert not LOSS.is_time
    assert read_metric("died") == DIED
    assert isinstance(PROGRAM, BisectedMetric)
    with pytest.raises(ValueError, match="did you mean 'loss'"):
        read_metric("los")
