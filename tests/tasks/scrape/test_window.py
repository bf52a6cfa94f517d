"""The literals that a pattern requires, tested on texts that hypothesis makes to match it."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.scrape.dialects import DIALECTS
from tasks.scrape.window import may_match

PATTERNS = [
    re.compile(pattern)
    for pattern in (
        rb"ab(?:cd|ef)?g", rb"(one|two) x*", rb"(?i:abc)d", rb"[Aa]b+c", rb"a*", rb"(?:a|)b", rb"x{2}yz", rb"(?=ab)a",
        rb"(?:ab|a(?:cd|))", rb"(?:(?i:one)|two)", rb"a(?:b|c)+d", rb"(?m:^)end\Z|begin", rb"step: (\d+)|iteration",
        rb"(?i)loss: a", rb"(?x) a b  # a text of four letters",
    )
]  # fmt: skip
OWN = [pattern for mark in DIALECTS for pattern in (mark.own_text, *mark.load().patterns.values())]


@pytest.mark.flows
@settings(max_examples=300, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_match_of_a_pattern_contains_a_required_literal(data: st.DataObject) -> None:
    pattern = data.draw(st.sampled_from([*PATTERNS, *OWN]))
    text = data.draw(st.from_regex(pattern))
    assert may_match(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text"), [(rb"(?:one|two) \d", b"three 3"), (rb"x?step: \d", b"a step 3"), (rb"(a|b)cd", b"ab")]
)
def test_a_text_without_any_literal_does_not_match(pattern: bytes, text: bytes) -> None:
    assert not may_match(re.compile(pattern), text)
