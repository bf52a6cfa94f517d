"""Faults planted into a small, really compiled training step: each is the first listed difference."""

import gzip
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.programs.compare_compiled import ProgramSide, compare_programs
from tasks.programs.program_work import analyse_program
from tasks.records.compiled import CompiledProgram

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "tests" / "samples" / "preflight"  # of tests/standins/preflight/faulty.py
# the kind of the fault, and its place
FIRST = {
    "gather-in-loop": ("all-gather in a loop", "head"),
    "no-donation": ("donation", ""),
    "float32-matmul": ("types of products", "layers"),
    "no-remat": ("recomputing", ""),
    "wrong-sharding": ("inputs: sharding", "layers/"),
}


def read(folder: Path) -> ProgramSide:
    text = gzip.decompress((folder / "optimised.hlo.gz").read_bytes()).decode()
    program = CompiledProgram.model_validate_json((folder / "compile.json").read_bytes())
    return ProgramSide(program, analyse_program(text.splitlines(keepends=True)))


@pytest.fixture(scope="module")
def whole() -> ProgramSide:
    return read(SAMPLES / "none")


@pytest.mark.parametrize("fault", FIRST)
def test_a_planted_fault_is_first(whole: ProgramSide, fault: str) -> None:
    faulty = read(SAMPLES / fault)
    first = compare_programs(whole, faulty).differences[0]
    what, where = FIRST[fault]
    assert first.what == what
    assert where in first.where
    assert first.share > 0  # a positive share: the fault costs time or memory
    mended = compare_programs(faulty, whole).differences[0]
    assert (mended.what, mended.share) == (what, -first.share)


def test_a_difference_links_to_its_line(whole: ProgramSide) -> None:
    first = compare_programs(whole, read(SAMPLES / "gather-in-loop")).differences[0]
    assert first.baseline_source is None  # the baseline has no such instruction
    assert first.candidate_source is not None
    text = gzip.decompress((SAMPLES / "gather-in-loop" / "optimised.hlo.gz").read_bytes())
    line = text[first.candidate_source.offset :].partition(b"\n")[0]
    assert b" all-gather(" in line
    assert b"while/body" in line
    assert text.split(b"\n")[first.candidate_source.line - 1] == line


def test_a_program_equals_itself(whole: ProgramSide) -> None:
    same = compare_programs(whole, whole)
    assert (same.differences, same.left_out) == ((), 0)


def test_unnamed_inputs_are_not_a_difference(whole: ProgramSide) -> None:
    faulty = read(SAMPLES / "wrong-sharding")
    unnamed = faulty._replace(program=faulty.program.replace(arrays=()))
    found = compare_programs(whole, unnamed).differences
    assert found
    assert not [one for one in found if one.what.startswith("inputs")]


def test_the_counted_work_equals_the_steps(whole: ProgramSide) -> None:
    """Per device: 2 of 8 sequences of 256 tokens; three products per layer, once forward, twice backward, and two of
    them recomputed; the head's product three times and once recomputed."""
    assert whole.analysis is not None
    tokens, width, hidden, vocabulary, layers = 2 * 256, 256, 1024, 2048, 4
    products = 3 * (width * hidden + hidden * hidden + hidden * width) + width * hidden + hidden * hidden
    assert whole.analysis.work.work.flops == 2 * tokens * (layers * products + 4 * width * vocabulary)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ProgramSide]:
    """compiled(fault): the program with a fault, compiled by the installed compiler."""
    pytest.importorskip("libtpu", reason="the extra `tpu` is not installed")

    def make(fault: str) -> ProgramSide:
        folder = tmp_path_factory.mktemp(fault)
        argv = [sys.executable, "-m", "tests.standins.preflight.faulty", fault, str(folder)]
        subprocess.run(argv, cwd=ROOT, check=True, timeout=600, capture_output=True)
        return read(folder)

    return make


@pytest.fixture(scope="module")
def whole_compiled(compiled: Callable[[str], ProgramSide]) -> ProgramSide:
    return compiled("none")


@pytest.mark.tpu
@pytest.mark.long
@pytest.mark.parametrize(
    "fault", [one if not place else pytest.param(one, marks=pytest.mark.by_hand) for place, one in enumerate(FIRST)]
)
def test_a_planted_fault_is_first_with_the_installed_compiler(
    fault: str, compiled: Callable[[str], ProgramSide], whole_compiled: ProgramSide
) -> None:
    first = compare_programs(whole_compiled, compiled(fault)).differences[0]
    assert first.what == FIRST[fault][0]
