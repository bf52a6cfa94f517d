"""The answer for a twin: same, another with its size and exact factor, or not evaluated; and the lines about it."""

from typing import Any

from questions.invariants.describe_invariants import describe_invariants
from questions.invariants.judge_twin import judge_twin
from questions.invariants.page import bisect_words, find_breaks
from questions.invariants.twin_files import Twin
from questions.invariants.twin_records import InvariantsRecord, TwinResult

TWIN = Twin(name="scan", origin="x:1", title="scan = unrolled", why="one loop", left={"scan_layers": True},
            right={"scan_layers": False})  # fmt: skip


def row(role: str, meaning: str, *, norm: float = 1.0, factor: float = 1.0, noise: float = 0.0) -> dict[str, Any]:
    """Return the measured row of a right side that is factor · left + noise."""
    gap = ((factor - 1.0) ** 2 * norm**2 + noise**2) ** 0.5
    return {
        "role": role, "meaning": meaning, "size": 8, "type": "f32", "norm": norm, "float64": gap, "factor": factor,
        "rest": noise, "right": factor * norm,
    }  # fmt: skip


def judge(*rows: dict[str, Any], **facts: Any) -> TwinResult:
    found = [row("parameter", "w"), row("metric", "loss"), *rows]
    return judge_twin(TWIN, "01_base", {"states": [{"state": "step 0", "results": found}], **facts})


def test_rounding_of_float64_is_the_same_function() -> None:
    found = judge(row("optimizer", "mu.w", noise=3e-15))
    assert found.answer == "same"
    assert found.gap is not None
    assert found.gap < 1e-14
    assert "one program" not in found.sentence
    assert "one program" in judge(one_program=True).sentence


def test_a_doubled_gradient_is_named_with_its_factor() -> None:
    found = judge(row("optimizer", "mu.experts.wi", factor=2.0), row("optimizer", "mu.w", noise=1e-15))
    assert found.answer == "another"
    assert "× 2.000, exactly" in found.sentence
    assert "experts.wi" in found.sentence


def test_a_result_that_is_off_by_a_factor_is_named_before_the_gradients() -> None:
    """A mean over the last part of a batch alone: AI-Hypercomputer/maxtext#3311."""
    gradient = row("optimizer", "mu.w", noise=4e-3)
    found = judge(row("metric", "moe_lb_loss", factor=1 / 128) | {"size": 1}, gradient)
    assert found.sentence.startswith("moe_lb_loss × 1/128, exactly")
    assert "0.4 %" in found.sentence
    # any number is some multiple of another
    assert "exactly" not in judge(row("metric", "loss", factor=1.063) | {"size": 1}).sentence
    always = [row("metric", "aux", factor=1.063) | {"size": 1}, row("parameter", "w")]
    states = [{"state": f"step {n}", "results": always} for n in range(3)]
    assert "aux × 1.063, exactly" in judge_twin(TWIN, "01_base", {"states": states}).sentence


def test_a_result_far_beyond_the_gradients_is_named_before_them() -> None:
    """An auxiliary loss of the last part of a batch alone, whose other parts differ."""
    gradient = row("optimizer", "mu.w", noise=3e-3)
    lost = row("metric", "moe_lb_loss", noise=0.75)
    found = judge(lost, gradient)
    assert found.sentence.startswith("moe_lb_loss differs by 7")  # of its size, and a share of all results'
    assert found.sentence.endswith("gradients differ by 0.3 % in float64")
    near = judge(row("metric", "loss", noise=4e-3), gradient)
    assert near.sentence.startswith("gradients differ by 0.3 %")


def test_the_factor_of_plain_gradient_descent_is_that_of_its_updates() -> None:
    """JAX's shard_map multiplied gradients by the number of devices: jax-ml/jax#36886."""
    moved = row("parameter", "w", noise=1e-3) | {"size": 8}
    updates = [row("parameter", name, norm=1e-4, factor=8.0, noise=1e-12) for name in ("w", "b")]
    found = judge(moved, updates=updates)
    assert "the updates of 2 weights × 8.000" in found.sentence
    assert "× 8" not in judge(moved, updates=[*updates, row("parameter", "c", norm=1e-4, factor=3.0)]).sentence


def test_an_argument_that_one_side_ignores_is_named() -> None:
    found = judge(row("optimizer", "mu.w", noise=0.1), unread={"segment_ids": "left", "positions": "neither"})
    assert found.sentence.endswith("; only the right side reads segment_ids; neither side reads positions")


def test_a_factor_of_almost_one_has_its_size() -> None:
    """MaxText adds 1e-8 to the number of tokens that it divides by: at once, but not for accumulated batches."""
    found = judge(row("optimizer", "mu.w", factor=1 + 2e-11))
    assert found.answer == "another"
    assert "exactly" not in found.sentence
    assert "2e-11" in found.sentence


def test_a_difference_that_is_no_factor_has_its_size() -> None:
    found = judge(row("optimizer", "mu.w", noise=0.081))
    assert found.answer == "another"
    assert "8.1 %" in found.sentence
    assert found.gaps[0].factor is None


def test_nothing_is_claimed_without_numbers() -> None:
    broken = row("metric", "grad_norm") | {"norm": None, "right": None, "float64": None}
    assert judge(broken).answer == "not evaluated"
    assert judge_twin(TWIN, "01_base", {"error": "the kernel has no float64 form"}).answer == "not evaluated"


def test_a_value_that_is_no_number_on_one_side_is_a_difference() -> None:
    found = judge(row("metric", "grad_norm") | {"right": None, "float64": None})
    assert (found.answer, "on the right side only" in found.sentence) == ("another", True)
    found = judge(row("metric", "grad_norm") | {"norm": None, "float64": None})
    assert (found.answer, "on the left side only" in found.sentence) == ("another", True)


def test_an_integer_that_differs_is_a_difference() -> None:
    integer = {"role": "counter", "meaning": "step", "size": 1, "type": "i32", "norm": None, "different": 1}
    assert judge(integer).answer == "another"


def record(*results: TwinResult) -> InvariantsRecord:
    return InvariantsRecord(
        id="a", trainer="maxview", version="main 7c1d2e3f4", created="2026-11-25T00:00:00+00:00", results=results
    )


def test_the_answer_fits_in_twenty_lines_and_gives_the_status() -> None:
    same, another = judge(), judge(row("optimizer", "mu.w", factor=2.0))
    silent = judge_twin(TWIN, "01_base", {"error": "no"})
    many = [one.replace(case=f"{n:02d}") for n in range(40) for one in (same, another, silent)]
    assert len(describe_invariants(record(*many))) <= 19  # and a line with the page
    assert len(describe_invariants(record(*many), full=True)) >= 120


def test_a_twin_that_was_not_evaluated_makes_the_answer_unknown_unless_its_kernel_has_no_float64_form() -> None:
    same, another = judge(), judge(row("optimizer", "mu.w", factor=2.0))
    died = judge_twin(TWIN, "01_base", {"error": "the process ended with exit code 1"})
    kernel = judge_twin(TWIN, "01_base", {"error": "the kernel has no float64 form", "no_function": True})
    given = ((same,), (same, kernel), (same, died), (same, another, died), (kernel,), (died, died), ())
    assert [record(*one).exit_status for one in given] == [0, 0, 3, 1, 3, 3, 3]
    assert "same" not in record(died).headline
    assert "same" not in record(judge_twin(TWIN, "a", {"error": "x"}).replace(answer="not applicable")).headline


def test_arrays_that_cannot_be_mapped_are_named_with_the_twins_file_and_line() -> None:
    twin = TWIN.replace(mapped_at="mine.yml:4")
    found = judge_twin(twin, "01_base", {"error": "no counterpart of wi", "not_mapped": True})
    assert (found.answer, found.sentence) == ("not evaluated", "mine.yml:4: no counterpart of wi")


def test_a_twin_that_broke_is_bisected_from_the_commit_at_which_it_held() -> None:
    held = record(judge(digests=["1", "2"])).replace(commit="a" * 40)
    unknown = record(judge(row("optimizer", "mu.w", factor=2.0), digests=["1", "4"])).replace(
        commit="b" * 40, created="2026-11-26T00:00:00+00:00", version="main b"
    )
    broken = unknown.replace(commit="c" * 40, created="2026-11-27T00:00:00+00:00", version="main c")
    breaks = find_breaks(broken, [held, unknown])
    assert breaks == {"scan 01_base": ("main b", "a" * 40, ("1", "2"))}
    words = "maxview bisect main-vs-branch --metric function --case 01_base --good aaaaaaaaaaaa --bad cccccccccccc"
    assert bisect_words(broken, breaks) == f"{words} --set scan_layers=false"
    assert not bisect_words(broken, find_breaks(broken, [unknown]))
    (result,) = broken.results
    left = broken.replace(results=(result.replace(digests=("3", "2")),))
    assert bisect_words(left, breaks) == f"{words} --set scan_layers=true"  # this side's results are other ones now
    resumed = broken.replace(results=(result.replace(settings=((), None)),))
    assert not bisect_words(resumed, breaks)  # no setting of a step repeats it


def test_a_resumed_process_with_another_program_is_judged_by_its_function() -> None:
    """Its arguments are equal in every bit; a rule that it read from the checkpoint is a constant of its program."""
    exact = {"role": "parameter", "meaning": "w", "size": 8, "type": "f32", "norm": None, "different": 0}
    measured: dict[str, Any] = {"states": [{"state": "resumed", "results": [exact]}], "exact": True}
    assert judge_twin(TWIN, "14_resume", measured).answer == "same"
    for factor, word in ((1.0, "same"), (0.5, "another")):
        results = [row("parameter", "w", factor=factor), row("metric", "loss")]
        found = judge_twin(
            TWIN, "14_resume", measured | {"programs": {"states": [{"state": "step 0", "results": results}]}}
        )
        assert found.answer == word
        assert "lowers another program" in found.sentence
    moved = exact | {"different": 2}
    found = judge_twin(TWIN, "14_resume", measured | {"states": [{"state": "resumed", "results": [moved]}]})
    assert found.answer == "another"
