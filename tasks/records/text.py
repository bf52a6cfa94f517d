"""Turns text of logs, branches and case names into text that can be shown: nothing in it acts and nothing hides."""

import re
import unicodedata

from rich.markup import escape

# A colour says nothing about a log line; every other escape sequence stays visible, since it may have hidden text.
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


def _name(code: int) -> str:
    return f"‹U+{code:04X}›"


def _pictures() -> dict[int, str]:
    table = {code: chr(0x2400 + code) for code in range(0x20)}
    table[0x7F] = "␡"
    table[ord("\t")] = "\t"
    table |= {code: _name(code) for code in range(0x80, 0xA0)}
    # format characters reorder or hide what stands around them (right-to-left overrides, zero-width, tags), the soft
    # hyphen included; line and paragraph separators break lines where the log has none
    table |= {
        code: _name(code)
        for code in (*range(0xA0, 0x3000), *range(0xFE00, 0x10000), *range(0xE0000, 0xE0200))
        if unicodedata.category(chr(code)) in ("Cf", "Zl", "Zp")
    }
    # lone halves of a surrogate pair cannot be written as UTF-8
    return table | dict.fromkeys(range(55296, 57344), "�")


_VISIBLE = _pictures()


def visible(text: str) -> str:
    """One line of text with its colours taken out and every other control or direction character made visible."""
    if text.isascii() and text.isprintable():
        return text
    return _COLOUR.sub("", text).translate(_VISIBLE)


def plain(text: str) -> str:
    """Text of a log or a file name for a terminal, as itself: neither markup nor control characters."""
    return escape(visible(text))


def visible_lines(text: str, keep: int = 2_000) -> str:
    """The same for a message of several lines, each at most `keep` characters."""
    return "\n".join(shorten(visible(line), keep) for line in text.split("\n"))


def shorten(text: str, keep: int) -> str:
    """The text with its middle taken out when it has more than `keep` characters, saying how much is gone."""
    if len(text) <= keep:
        return text
    tail = keep // 4
    return f"{text[: keep - tail]} … [{len(text) - keep:,} characters left out] … {text[-tail:]}"
