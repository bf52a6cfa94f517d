"""The filter of a piece of a log: words in a line always pass, other words mostly do not."""

import base64

from hypothesis import given
from hypothesis import strategies as st

from tasks.publish.page.word_filter import MOST_BYTES, Letters


def may_hold(found: str, word: str) -> bool:
    """Query the filter like the page's script, which lower-cases only ASCII letters."""
    bits = base64.b64decode(found)
    asked = "".join("0" if letter.isdigit() and letter.isascii() else letter for letter in word.lower())
    for i in range(len(asked) - 2):
        three = [ord(letter) for letter in asked[i : i + 3]]
        if max(three) < 128:
            place = (three[0] * 1024 ^ three[1] * 32 ^ three[2]) % (8 * len(bits))
            if not bits[place // 8] & 2 ** (place % 8):
                return False
    return True


@given(st.lists(st.text(max_size=60), max_size=20), st.data())
def test_words_of_a_line_always_pass(lines: list[str], data: st.DataObject) -> None:
    letters = Letters()
    for line in lines:
        letters.take(line)
    found = letters.filter()
    for line in lines:
        begin = data.draw(st.integers(0, len(line)))
        assert may_hold(found, line[begin : data.draw(st.integers(begin, len(line)))])


def test_other_words_are_mostly_excluded() -> None:
    letters = Letters()
    for step in range(1000):
        letters.take(f"completed step: {step}, seconds: {step / 7:.3f}, loss: {8 - step / 999:.4f}")
    found = letters.filter()
    assert may_hold(found, "STEP: 77, seconds")
    assert not may_hold(found, "needle")
    assert not may_hold(found, "step=77")


def test_a_piece_without_similar_lines_may_contain_all() -> None:
    letters = Letters()
    for number in range(MOST_BYTES):
        letters.take(f"{number:x}".translate({ord("0") + i: ord("g") + i for i in range(10)}))
    assert letters.filter() == ""
