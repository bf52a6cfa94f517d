"""Results of compiles and missing compilers: a compiler's crash is a result, a missing package is reported once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.ingest.run_record import build_record
from tasks.preflight.read_compiles import find_missing_compilers, read_compile
from tasks.records import RunPlan
from tasks.scrape import scrape_run
from tasks.store import RunDirectory, Store

CRASH = "F1122 10:05:11.123456   14916 gather.cc:860] Check failed: rank > 1 (1 vs. 1)"
FRAMES = "*** Check failure stack trace: ***\n    @     0x7f10 (unknown)"


@pytest.mark.parametrize(
    ("said", "code", "cause"),
    [
        ("compiling for v6e:4x8, 32 devices", 139, "ended by signal 11 (SIGSEGV)"),
        (f"{CRASH}\n{FRAMES}", 134, "Check failed: rank > 1 (1 vs. 1)"),
    ],
    ids=["without a word", "with its last words"],
)
def test_a_crash_of_the_compiler_is_the_cause(
    said: str, code: int, cause: str, make_plan: Callable[..., RunPlan], directory: RunDirectory, tmp_path: Path
) -> None:
    plan = make_plan("", compiles_for="v6e:4x8")
    directory.log.write_text(f"XPK Start: Sun Nov 22 10:05:01 UTC 2026\nlowering\n{said}\nEXIT_CODE={code}\n")
    found = read_compile(build_record(plan, directory, scrape_run(directory.log), []), Store(tmp_path / "out"))
    assert (found.reported, found.program.ok, found.program.devices) == (False, False, 32)
    assert found.program.error is not None
    assert cause in found.program.error.message


def test_a_missing_compiler_is_reported_once_for_all_arms_that_share_it(make_plan: Callable[..., RunPlan]) -> None:
    plans = [
        *(make_plan("", arm=arm, case=case) for case in ("01_base", "04_int8") for arm in ("linen", "nnx")),
        make_plan("", arm="newer", software=("jax==0.12.0.1",)),
        make_plan("", arm="has it", versions={"libtpu": "0.0.50"}),
    ]
    assert find_missing_compilers(plans) == [
        "libtpu, which compiles for TPUs, is not installed for 'linen' and 'nnx': uv sync --extra tpu",
        "libtpu, which compiles for TPUs, is not installed for 'newer': --with 'newer:jax[tpu]', or "
        "packages: ['jax[tpu]'] in the comparison's file",
    ]
    assert find_missing_compilers(plans[-1:]) == []
