"""The function that ignores an argument of the step is found by its source."""

import gzip
from pathlib import Path

import pytest

from questions.invariants.dropped_arguments import find_dropped

SOURCE = """\
def mask_of(segment_ids_BL):
    return segment_ids_BL[:, None] == segment_ids_BL


def attend(query, segment_ids_BL):
    mask = None
    return kernel(query, mask)


def never_run(segment_ids_BL):
    return 0
"""


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ((2, 7), "model/attention.py:7 (attend is given segment_ids_BL and does not read it)"),
        ((2,), ""),  # the function that ignores them did not run
    ],
)
def test_the_function_that_ran_and_ignores_the_argument_is_named(
    lines: tuple[int, ...], found: str, tmp_path: Path
) -> None:
    source = tmp_path / "model/attention.py"
    source.parent.mkdir()
    source.write_text(SOURCE)
    program = tmp_path / "step.mlir.gz"
    places = "".join(f'#loc{n} = loc("{source}":{n}:11 to :40)\n' for n in lines)
    program.write_bytes(gzip.compress(f'module {{}}\n#loc = loc("/gone/other.py":3:1)\n{places}'.encode()))
    assert find_dropped(program, "segment_ids", str(tmp_path)) == found


def test_without_a_program_nothing_is_named(tmp_path: Path) -> None:
    assert find_dropped(tmp_path / "step.mlir.gz", "segment_ids") == ""
