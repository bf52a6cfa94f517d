"""Draws the page of a `ConvergenceRecord`: the band of the seeds, the candidate's curves, and a strip to the target."""

from collections.abc import Sequence
from html import escape
from math import isfinite, log

from tasks.records.convergence import ConvergenceRecord

WIDTH, HEIGHT, LEFT, BELOW, STRIP = 860, 380, 60, 40, 90
STYLE = """body{font:15px system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 1em;color:#222;background:#fff}
svg{width:100%;height:auto}text{font:12px system-ui;fill:#555}.band{fill:#4a7fb544}.mean{stroke:#2a5f95}
.run{stroke:#c25a00;opacity:.8}.seed{fill:#2a5f95}.candidate{fill:#c25a00}path,line{fill:none;stroke-width:1.5}
line{stroke:#bbb}td{padding:.2em .8em .2em 0;vertical-align:top}
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}text{fill:#aaa}}"""


def convergence_page(record: ConvergenceRecord) -> str:
    """Return the page as HTML; it needs no other file."""
    rows = "".join(
        f"<tr><td>{escape(row.title)}</td><td><b>{escape(row.verdict)}</b></td><td>{escape(row.reason)}</td></tr>"
        for row in record.rows
    )
    odd = "".join(f"<li>{escape(one.run)}: {escape(one.shape)}: {escape(one.text)}</li>" for one in record.oddities)
    notes = "".join(f"<li>{escape(note)}</li>" for note in record.notes)
    about = f" of {record.subject}" if record.subject else ""
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Convergence</title><style>{STYLE}</style>"
        f"<h1>{escape(record.verdict.upper())}: convergence{escape(about)}</h1><p>{escape(record.headline)}</p>"
        f"{_draw_curves(record)}{_draw_strip(record)}<table>{rows}</table><ul>{odd}{notes}</ul></html>"
    )


def _draw_curves(record: ConvergenceRecord) -> str:
    """Return the band of 99 of 100 seeds, its mean, and each run of the candidate, over logarithmic axes."""
    band = record.band
    curves = [[(x, y) for x, y in zip(one.positions, one.losses, strict=True) if isfinite(y) and y > 0]
              for one in record.candidate]  # fmt: skip
    points = [point for curve in curves for point in curve]
    points += [*zip(band.positions, band.lows, strict=True), *zip(band.positions, band.highs, strict=True)]
    if not points:
        return ""
    across, up = (_scale([log(point[axis]) for point in points]) for axis in (0, 1))

    def place(point: tuple[float, float]) -> str:
        x = LEFT + (WIDTH - LEFT - 10) * across(log(point[0]))
        return f"{x:.1f} {(HEIGHT - BELOW) - (HEIGHT - BELOW - 10) * up(log(point[1])):.1f}"

    def path(curve: Sequence[tuple[float, float]], kind: str, end: str = "") -> str:
        return f'<path class="{kind}" d="M{" L".join(map(place, curve))}{end}"/>' if curve else ""

    around = [*zip(band.positions, band.highs, strict=True),
              *reversed(list(zip(band.positions, band.lows, strict=True)))]  # fmt: skip
    drawn = path(around, "band", "Z") + path(list(zip(band.positions, band.means, strict=True)), "mean")
    drawn += "".join(path(curve, "run") for curve in curves)
    xs, ys = ([point[axis] for point in points] for axis in (0, 1))
    unit = record.reference[0].unit
    words = (
        f'<text x="{LEFT}" y="{HEIGHT - 12}">{min(xs):g}</text>'
        f'<text x="{WIDTH - 10}" y="{HEIGHT - 12}" text-anchor="end">{max(xs):g} {unit}</text>'
        f'<text x="4" y="16">{max(ys):.4g}</text><text x="4" y="{HEIGHT - BELOW}">{min(ys):.4g}</text>'
    )
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{drawn}{words}</svg><figcaption>Loss. Blue: the mean '
        "of the reference's seeds, and where 99 of 100 further seeds would lie; orange: the candidate's runs."
        "</figcaption></figure>"
    )


def _draw_strip(record: ConvergenceRecord) -> str:
    """Return a point per run at the samples or steps that it needed to the target; empty without a target."""
    row = next((row for row in record.rows if row.metric == "to_target"), None)
    known = [value for side in row.each for value in side if value is not None] if row else []
    if row is None or not known:
        return ""
    across = _scale(known)
    dots = "".join(
        f'<circle class="{kind}" r="5" cx="{LEFT + (WIDTH - LEFT - 20) * across(value):.1f}" cy="{y}"/>'
        for kind, y, side in (("seed", 25, row.each[0]), ("candidate", 50, row.each[1]))
        for value in side
        if value is not None
    )
    words = (
        f'<text x="0" y="29">seeds</text><text x="0" y="54">cand.</text><text x="{LEFT}" y="80">{min(known):.6g}</text>'
        f'<text x="{WIDTH - 10}" y="80" text-anchor="end">{max(known):.6g}</text>'
    )
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {STRIP}" role="img">{dots}{words}</svg>'
        f"<figcaption>{escape(row.title)}: each run is a point.</figcaption></figure>"
    )


class _scale:
    """Maps values onto 0 to 1."""

    def __init__(self, values: Sequence[float]) -> None:
        self.low, self.high = min(values), max(values)

    def __call__(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
