"""The grammar of step lines: all fields of all versions, and no truncated number."""

import math

import pytest

from tasks.scrape.dialects.maxtext.rows import parse as parse_step
from tasks.scrape.read_log import scrape_text
from tasks.scrape.table.row_grammar import Row

WHOLE = (
    b"completed step: 3, seconds: 0.148, TFLOP/s/device: 91.653, Tokens/s/device: 13814.875, total_weights: 65536, "
    b"loss: 8.892, lm_loss: 8.892, perplexity: 7270.717"
)


def parse(data: bytes, before: Row | None = None, *, is_end: bool = True) -> Row | None:
    return parse_step(data, 0, before, is_end)


def values(data: bytes) -> dict[str, float | int | str]:
    line = parse(data)
    assert line is not None
    return {field.key: field.value for field in line.fields[1:]}


def whole() -> Row:
    line = parse(WHOLE + b"\n")
    assert line is not None
    return line


def test_every_field_is_under_its_own_key() -> None:
    assert whole().step == 3
    assert values(WHOLE + b"\n") == {
        "seconds": 0.148, "TFLOP/s/device": 91.653, "Tokens/s/device": 13814.875, "total_weights": 65536,
        "loss": 8.892, "lm_loss": 8.892, "perplexity": 7270.717,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # MaxText of 2024: neither tokens nor weights
        (b"completed step: 0, seconds: 24.349, TFLOP/s/device: 6.125, loss: 10.500", {"loss": 10.5}),
        # elastic, MoE, multi-token prediction, DPO
        (b"completed step: 7, seconds: 1.500, live slice count: 2, loss: 1.000", {"live slice count": 2.0}),
        (b"completed step: 7, seconds: 1.500, loss: 1.000, moe_lb_loss: 0.010203", {"moe_lb_loss": 0.010203}),
        (b"completed step: 7, seconds: 1.500, loss: 1.000, indexer_loss: 1e-05", {"indexer_loss": 1e-05}),
        (b"completed step: 7, seconds: 1.500, loss: 1.000, phase: warmup", {"phase": "warmup"}),
        (b"completed step: 7, seconds: 1.500, loss: -0.125", {"loss": -0.125}),
        (b"completed step: 7, seconds: 1.500, total_weights: 65536.0, loss: 1.000", {"total_weights": 65536}),
        (b"completed profiler activation/deactivation step: 5, total_weights: 8, loss: 1.250", {"loss": 1.25}),
    ],
)
def test_optional_fields(text: bytes, expected: dict[str, object]) -> None:
    assert values(text + b"\n").items() >= expected.items()


@pytest.mark.parametrize(("text", "check"), [(b"nan", math.isnan), (b"inf", math.isinf), (b"-inf", math.isinf)])
def test_nan_is_a_value(text: bytes, check: object) -> None:
    assert callable(check)
    assert check(values(b"completed step: 1, seconds: 0.100, loss: " + text + b"\n")["loss"])


def test_profiler_step_without_numbers() -> None:
    line = parse(b"completed profiler activation step: 12\n")
    assert line is not None
    assert (line.step, len(line.fields)) == (12, 1)


@pytest.mark.parametrize(
    "text",
    [
        b"completed step: x, seconds: 0.148\n",
        b"completed step: 3\n",
        b"completed step: 3, seconds: 0.1.48, loss: 8.892\n",
        b"completed step: 3, seconds: 0.148, loss: 8.8x2\n",
        b"completed step: 3, seconds: 00.148, loss: 8.892\n",
        b"completed step: 3, seconds:  0.148, loss: 8.892\n",
        b"completed step: 03, seconds: 0.148, loss: 8.892\n",
        b"completed step: 3, seconds: , loss: 8.892\n",
        b"completed step: 3, seconds: 0.148, loss: 8.892, loss: 8.893\n",
        b"completed step: 3, seconds: 0.148, total_weights: 03923, loss: 8.892\n",
        b"completed step: 3, seconds: 0.148, total_weights: 65536.5, loss: 8.892\n",
        b"completed step: 3, seconds: 0.148, loss: 8.892,\n",
        b"completed step: 3, seconds: 0.148, total_weights: 65\n",
        b"completed step: 3, seconds: 0.148, total_weights: 65536.0 completed step: 4\n",
        b"completed step: 3, seconds: 0.1completed step: 4, seconds: 0.148\n",
        b"completed step: 3, step: 4, seconds: 0.148, loss: 8.892\n",
    ],
)
def test_a_damaged_line_is_not_read(text: bytes) -> None:
    assert parse(text) is None


def test_a_number_with_other_decimals_must_occur_twice() -> None:
    text = b"completed step: 3, seconds: 0.14, loss: 8.892\n"
    assert parse(text, before=whole()) is None
    line = parse(text)
    assert line is not None
    assert not line.regular
    for steps in (1, 2, 3):
        log = b"".join(text.replace(b"3,", b"%d," % step, 1) for step in range(steps))
        coverage = scrape_text(log, name="x").runs[0].coverage
        assert (coverage.step_lines_seen, coverage.step_lines_parsed) == (steps, steps if steps == 3 else 0)


@pytest.mark.parametrize("following", [b"", b"\n", b" I0418 00:00:09.000000 1351 max_utils.py:1] next\n"])
def test_a_truncated_line_never_gives_a_wrong_number(following: bytes) -> None:
    right = {field.key: field.value for field in whole().fields}
    for cut in range(len(b"completed step: "), len(WHOLE)):
        line = parse(WHOLE[:cut] + following, before=whole())
        if line is not None:  # truncated exactly behind a value: the value is right
            assert line.step == 3
            assert all(right[field.key] == field.value for field in line.fields)


def test_a_last_line_without_its_line_break() -> None:
    assert parse(WHOLE) is None  # no other row to compare with
    assert parse(WHOLE, before=whole()) is not None
    assert parse(WHOLE[:-1], before=whole()) is None
    assert parse(WHOLE, whole(), is_end=False) is None  # more may come


def test_glued_to_another_record() -> None:
    prefix = b"I0418 00:00:09.000000 135104514455360 max_utils.py:1] next\n"
    line = parse(WHOLE + prefix)
    assert line is not None
    assert line.end == len(WHOLE)
    assert parse(WHOLE[:-1] + prefix) is None


def test_a_key_that_is_not_text() -> None:
    assert parse(b"completed step: 1, seconds: 0.100, l\xe3ss: 2.000, loss: 2.000\n") is None
    assert parse(b"completed step: 1, seconds: 0.100, l\x07ss: 2.000, loss: 2.000\n") is None


def test_a_step_without_its_blank_may_have_lost_a_digit() -> None:
    """`step: 11` without two bytes is `step:1`."""
    text = b"completed step:%d, seconds: 1.000, loss: 2.000\n"
    assert parse(text % 1, is_end=False) is None
    assert parse(text.replace(b":%d", b": %d") % 1, is_end=False) is not None


def test_a_line_merged_with_the_next_gives_its_step_no_values() -> None:
    text = b"completed step: 11, seconds being re-looped completed step: 8, seconds: 1.000, loss: 2.000\n"
    assert parse(text) is None
    whole = parse_step(text, text.index(b"completed step: 8"), None, False)
    assert whole is not None
    assert whole.step == 8
