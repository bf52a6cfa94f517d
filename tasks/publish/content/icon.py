"""The colours of outcomes, a page's icon, and images as data URIs."""

import base64
import re

from tasks.publish.content.templating import read_asset
from tasks.publish.content.verdict_words import OUTCOMES, Outcome

COLOURS: dict[str, str] = dict(
    re.findall(r"--([\w-]+): (#[0-9a-f]{6})", read_asset("page.css").partition("@media")[0])
)  # name -> colour of the light theme


def colour_of(outcome: Outcome) -> str:
    """Return the colour of an outcome in the light theme, `#rrggbb`."""
    return COLOURS.get("regressed" if outcome in ("died", "failed") else outcome, COLOURS["dim"])


def draw_icon(outcome: Outcome) -> str:
    """Return a page's favicon as SVG text: the sign of the outcome in white on the outcome's colour."""
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
        f'<rect width="32" height="32" rx="7" fill="{colour_of(outcome)}"/><text x="16" y="24" font-size="22" '
        'fill="#fff" font-family="sans-serif" font-weight="bold" text-anchor="middle">'
        f"{OUTCOMES[outcome].sign}</text></svg>"
    )


def to_data_uri(svg: str) -> str:
    """Return a data URI that shows the SVG as an image in Markdown and HTML."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
