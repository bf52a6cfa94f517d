"""Shown text is inert, and all of its characters are visible."""

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tasks.records.text import shorten, show_interval, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, 100 %", "plain text, 100 %"),
        ("größer → ± 日本語 ✓", "größer → ± 日本語 ✓"),
        ("\x1b[31mred\x1b[0m \x1b[1;38;5;12mblue\x1b[m", "red blue"),
        ("\x1b[2Jgone", "␛[2Jgone"),
        ("\x1b]8;;http://host\x07text", "␛]8;;http://host␇text"),
        ("a\nb\rc", "a␊b␍c"),
        ("nul\x00del\x7f", "nul␀del␡"),
        ("a\tb", "a\tb"),
        ("\u202egpj.exe", "‹U+202E›gpj.exe"),
        ("zero\u200bwidth", "zero‹U+200B›width"),
        ("\x9b31m", "‹U+009B›31m"),
        ("half \ud800", "half \ufffd"),
        ("tag \U000e0041", "tag ‹U+E0041›"),
    ],
)
def test_every_character_is_visible_and_inert(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text(st.characters()))
def test_a_shown_text_has_no_control_and_no_direction_character(text: str) -> None:
    shown = visible(text)
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") and c != "\t"]
    assert not [c for c in shown if unicodedata.bidirectional(c) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI")]
    shown.encode("utf-8")


@given(st.text(), st.integers(min_value=8, max_value=50))
@example("00000.0:0", 8)
def test_a_shortened_text_keeps_both_ends_and_the_number_of_omitted_characters(text: str, keep: int) -> None:
    short = shorten(text, keep)
    if len(text) <= keep:
        assert short == text
        return
    # the note may have a place, file and line, of what it replaces
    note = re.search(rf" … \[{len(text) - keep:,} characters left out(: [^\]]*)?\] … ", short)
    assert note is not None
    start, end = short[: note.start()], short[note.end() :]
    assert len(start) + len(end) == keep
    assert text.startswith(start)
    assert text.endswith(end)


@pytest.mark.parametrize(
    ("ends", "shown"),
    [
        ((0.081, 0.06, 0.103), "+8.1 % (+6.0 … +10.3)"),
        ((0.0001, -0.00016, 0.00036), "+0.01 % (-0.02 … +0.04)"),  # one decimal would print zeros
        ((0.05, 0.05, 0.05), "+5.0 % (+5.0 … +5.0)"),
    ],
)
def test_an_interval_is_as_precise_as_its_width(ends: tuple[float, float, float], shown: str) -> None:
    assert show_interval(*ends) == shown


@pytest.mark.parametrize(
    ("ends", "shown"),
    [
        ((0.0001, -0.019, 0.0204), "+0.01 % (-1.90 … +2.04)"),  # 2.04 is beyond 2, +2.0 would not be
        ((0.0001, -0.02003, 0.0195), "+0.010 % (-2.003 … +1.950)"),
        ((0.0001, -0.019, 0.02), "+0.0 % (-1.9 … +2.0)"),
        ((0.0201, 0.0001, 0.039), "+2.01 % (+0.01 … +3.90)"),
        ((0.0001, -0.019, 0.04), "+0.0 % (-1.9 … +4.0)"),
    ],
)
def test_a_number_beyond_the_limit_is_not_rounded_to_it(ends: tuple[float, float, float], shown: str) -> None:
    assert show_interval(*ends, 0.02) == shown
