"""Formats text for people: makes text from logs, branches and case names safe to print; shows counts and intervals."""

import re
import unicodedata
from math import ceil, floor, inf, isfinite, log10

from rich.markup import escape

MAX_DECIMALS = 6  # of a percentage
MAX_PLACES = 3  # of the part of a text that is left out
GIGA, MEGA = 1e9, 1e6
_PLACE = re.compile(r"(?<![\w./-])[\w./-]{1,200}\.\w{1,5}:\d{1,7}")  # a source file and a line
_SEARCHED = 20_000  # characters of a long text that are searched for a place
# Colour codes are removed. Other escape sequences are shown as text, because they could hide output.
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


def _name(code: int) -> str:
    return f"‹U+{code:04X}›"


def _pictures() -> dict[int, str]:
    table = {code: chr(0x2400 + code) for code in range(0x20)}
    table[0x7F] = "␡"
    table[ord("\t")] = "\t"
    table |= {code: _name(code) for code in range(0x80, 0xA0)}
    # Format characters (right-to-left overrides, zero-width, tags, soft hyphens) reorder or hide text; line and
    # paragraph separators would break lines.
    table |= {
        code: _name(code)
        for code in (*range(0xA0, 0x3000), *range(0xFE00, 0x10000), *range(0xE0000, 0xE0200))
        if unicodedata.category(chr(code)) in ("Cf", "Zl", "Zp")
    }
    # lone surrogates cannot be encoded in UTF-8
    return table | dict.fromkeys(range(55296, 57344), "�")


_VISIBLE = _pictures()


def visible(text: str) -> str:
    """Return a line of text without colour codes; symbols replace other control and format characters, except tabs."""
    if text.isascii() and text.isprintable():
        return text
    return _COLOUR.sub("", text).translate(_VISIBLE)


def escape_rich(text: str) -> str:
    """Return text for rich's console: as `visible`, and with rich markup escaped."""
    return escape(visible(text))


def visible_lines(text: str, keep: int = 2_000) -> str:
    """Return `visible` of every line of a message, each line shortened to about `keep` characters."""
    return "\n".join(shorten(visible(line), keep) for line in text.split("\n"))


def shorten(text: str, keep: int) -> str:
    """Return the text; if longer than `keep` characters, a note replaces its middle, with the first places in it."""
    if len(text) <= keep:
        return text
    tail = keep // 4
    # file and line: a reader looks for nothing else
    cut = (
        one[0]
        for one in _PLACE.finditer(text, 0, _SEARCHED)
        if keep - tail < one.end() and one.start() < len(text) - tail
    )
    places = ", ".join(list(dict.fromkeys(cut))[:MAX_PLACES])
    at = f": {places}" if places else ""
    return f"{text[: keep - tail]} … [{len(text) - keep:,} characters left out{at}] … {text[-tail:]}"


def tells_nothing(low: float, high: float) -> bool:
    """Return whether an interval of a relative change contains both half and double the value."""
    return low <= -0.5 and high >= 1.0


def show_interval(estimate: float, low: float, high: float, limit: float = inf) -> str:
    """Return a relative change with its interval in percent, e.g. `-6.6 % (-9.1 … -4.0)`.

    A narrower interval is shown with more decimals, and so is a number that would be rounded to the limit ± `limit`
    from beyond it: 0.0205 is `+2.05` if the limit is 0.02.
    """
    if tells_nothing(low, high):
        return f"{show_share(estimate, 1)} % (not known to a factor of 2)"
    decimals = _decimals(estimate, low, high, limit)
    texts = [show_share(share, decimals) for share in (estimate, low, high)]
    return f"{texts[0]} % ({texts[1]} … {texts[2]})"


def show_estimate(estimate: float, low: float, high: float, limit: float = inf) -> str:
    """Return the relative change of `show_interval` without its interval: `-6.6 %`."""
    decimals = 1 if tells_nothing(low, high) else _decimals(estimate, low, high, limit)
    return f"{show_share(estimate, decimals)} %"


def _decimals(estimate: float, low: float, high: float, limit: float) -> int:
    half = 100 * (high - low) / 2
    decimals = max(1, ceil(-log10(half))) if half > 0 else 1
    beyond = [100 * abs(share) for share in (estimate, low, high) if abs(share) > limit]
    while decimals < MAX_DECIMALS and any(round(share, decimals) <= 100 * limit for share in beyond):
        decimals += 1
    return decimals


def show_share(share: float, decimals: int = 1) -> str:
    """Return a share in percent, with a sign: `+16.9`; never `-0.0`."""
    return f"{round(100 * share, decimals) + 0.0:+.{decimals}f}"


def show_number(value: float) -> str:
    """Return a number with three significant digits: `1.10 G`, `2.00 M`, `12,500`, `0.0795`."""
    for scale, letter in ((GIGA, "G"), (MEGA, "M")):
        if abs(value) >= scale:
            return f"{show_digits(value / scale)} {letter}"
    return f"{value:,.0f}" if abs(value) >= 1000 else show_digits(value)


def show_digits(value: float) -> str:
    """Return three significant digits, zeros included."""
    if not value or not isfinite(value):
        return f"{value:g}"
    decimals = max(0, 2 - floor(log10(abs(value))))
    return f"{value:.{min(decimals, MAX_DECIMALS)}f}"


def counted(number: int, word: str) -> str:
    """Return a number with its noun. `word`: the singular of a noun with plural in -s."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
