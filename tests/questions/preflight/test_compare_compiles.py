"""The verdict on two compiles, from their results; a crash of the compiler is a result."""

from collections.abc import Callable
from pathlib import Path

import pytest

from configs.verdict_rules import load_verdict_rules
from questions.preflight.compare_compiles import Compiled, examine_compiles, read_compile
from tasks.diff.judge.exit_status import exit_status
from tasks.diff.judge.judge_case import judge
from tasks.ingest.run_record import build_record
from tasks.records.compared_case import ComparisonRecord
from tasks.records.compiled import CompiledProgram, CompileError
from tasks.records.log_reading import RunReading
from tasks.records.plan import RunPlan
from tasks.records.run import RunRecord
from tasks.records.run_end import LogError
from tasks.scrape.read_log import scrape_run
from tasks.store.directories import RunDirectory
from tasks.store.store import Store
from tests.wording.sentences import Wording

SAMPLES = Path(__file__).parents[2] / "samples" / "preflight"
CRASH = "F1122 10:05:11.123456   14916 gather.cc:860] Check failed: rank > 1 (1 vs. 1)"
FRAMES = "*** Check failure stack trace: ***\n    @     0x7f10 (unknown)"
OVERFLOW = "Ran out of memory in memory space hbm. Used 35.2G of 31.25G hbm."


def compiled(arm: str, sample: str, *, error: str = "") -> Compiled:
    program = CompiledProgram.model_validate_json((SAMPLES / sample / "compile.json").read_bytes())
    text: bytes | None = (SAMPLES / sample / "optimised.hlo.gz").read_bytes()
    reading = RunReading(format="maxtext", name=arm, exit_code=1 if error else 0)
    if error:
        reported = CompileError(type="HbmOverflow", message=error)
        program, text = program.replace(ok=False, error=reported, memory=None), None
        cause = LogError(type="HbmOverflow", message=error, line=3, offset=40, kind="device_oom")
        reading = reading.replace(error=cause)
    run = RunRecord(plan=None, arm=arm, label=arm, commit=None, log=f"/store/runs/{arm}/log.txt", reading=reading)
    return Compiled(run=run, program=program, text=text)


def compare(baseline: Compiled, candidate: Compiled) -> ComparisonRecord:
    rules = load_verdict_rules("linen-vs-nnx", "v6e-32")
    return judge(examine_compiles(baseline, candidate, comparison="linen-vs-nnx", case="01_base", rules=rules))


def test_one_program_is_the_same() -> None:
    record = compare(compiled("linen", "none"), compiled("nnx", "none"))
    assert record.verdict == "same"
    assert exit_status([record]) == 0
    assert [(floor.name, floor.holds) for floor in record.floors] == [("same program", True)]


def test_an_arm_that_did_not_compile_disproves_no_floor() -> None:
    broken = compiled("nnx", "none", error="does not fit")
    prints = broken.program.fingerprints
    assert prints is not None
    program = broken.program.replace(fingerprints=prints.replace(optimised=None))
    record = compare(compiled("linen", "none"), broken.replace(program=program))
    assert record.candidate.has_died
    assert record.floors == ()


def keyed(arm: str, key: str | None, taken_from: str | None) -> Compiled:
    one = compiled(arm, "none")
    program = one.program.replace(compiler_key=key, taken_from=taken_from)
    return one.replace(program=program)


@pytest.mark.parametrize(
    ("linen", "nnx", "reported"),
    [
        (
            ("k", None),
            ("k", "01_base-linen"),
            "compiled once, for linen: both arms handed the compiler the same program",
        ),
        (("k", "01_base-nnx"), ("k", None), "compiled once, for nnx: both arms handed the compiler the same program"),
        (("k", "old"), ("k", "old"), "compiled before, for old: both arms handed the compiler the same program"),
        (("k", None), ("k", None), "compiled twice: both arms handed the compiler the same program"),
        (("k", None), ("l", "old"), "nnx was not compiled: old was the same program"),
        (("k", None), ("l", None), "one compile of each"),
        ((None, None), (None, None), "one compile of each"),
    ],
)
def test_the_compiled_arms_are_named(
    linen: tuple[str | None, str | None], nnx: tuple[str | None, str | None], reported: str
) -> None:
    record = compare(keyed("linen", *linen), keyed("nnx", *nnx))
    assert next(row for row in record.rows if row.metric == "compile_cpu_s").reason == reported
    shared = linen[0] is not None and linen[0] == nnx[0]
    assert record.floors[0].evidence == (reported if shared else "the compiler makes the same program of both")


@pytest.mark.parametrize(
    ("sample", "row"), [("no-donation", "program_memory_gb"), ("gather-in-loop", "collective_bytes")]
)
def test_a_larger_cost_is_regressed_and_a_smaller_one_improved(sample: str, row: str) -> None:
    worse = compare(compiled("linen", "none"), compiled("nnx", sample))
    assert worse.verdict == "regressed"
    assert next(one for one in worse.rows if one.metric == row).verdict == "regressed"
    better = compare(compiled("linen", sample), compiled("nnx", "none"))
    assert next(one for one in better.rows if one.metric == row).verdict == "improved"
    assert exit_status([worse]) == 1


@pytest.mark.parametrize(("failed", "verdict"), [("nnx", "regressed"), ("linen", "unknown"), ("both", "unknown")])
def test_a_program_that_does_not_fit_is_a_result_with_its_cause(failed: str, verdict: str, wording: Wording) -> None:
    record = compare(
        *(compiled(arm, "none", error=OVERFLOW if failed in (arm, "both") else "") for arm in ("linen", "nnx"))
    )
    assert record.verdict == verdict
    assert exit_status([record]) == 1
    assert f"{'linen' if failed == 'both' else failed} does not compile " in record.headline
    assert f"v6e:2x2: HbmOverflow: {OVERFLOW}" in record.headline
    wording("reasons", record.headline)
    sums = {"program_memory_gb", "estimated_cycles", "collective_bytes", "kernels"}
    if failed == "both":
        assert not sums & {row.metric for row in record.rows}
        assert "Memory of a device" in record.absent
        assert not any(title.startswith("–") for title in record.absent)  # no parts of sums
    else:
        assert sums < {row.metric for row in record.rows}
        assert not record.absent
    assert {row.verdict for row in record.rows if row.metric in sums} <= {
        "not judged"
    }  # successful compilation is a judged row
    assert record.programs is not None
    assert set(record.programs.unfit) == ({"linen", "nnx"} if failed == "both" else {failed})


def test_a_program_larger_than_the_device_does_not_fit() -> None:
    right = compiled("nnx", "none")
    small = right.program.replace(hbm_bytes=2**20)
    record = compare(compiled("linen", "none"), right.replace(program=small))
    assert next(one for one in record.rows if one.metric == "compiles").verdict == "regressed"
    assert record.programs is not None
    assert record.programs.unfit == ("nnx",)


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
