"""What the comparison of two functions found, as data and as a few lines."""

import linecache
from dataclasses import dataclass, field
from html import escape
from math import inf, isfinite, log10

MAX_CODE, SHOWN = 60, 4
SAME, OTHER = "#1a7f37", "#cf222e"  # colours in a notebook


@dataclass(frozen=True)
class Root:
    """A value of the new function that the old one never has, although all values that it is made of are in both."""

    operation: str  # JAX's name, "dot_general"
    file: str  # "" if the operation has no line outside of libraries
    number: int
    function: str
    is_new: bool = True  # False: a value of the old function that the new one never has

    @property
    def line(self) -> str:
        """The source line, as `attention.py:91`."""
        return f"{self.file.rpartition('/')[2]}:{self.number}" if self.file else "an unknown line"

    @property
    def code(self) -> str:
        """The text of the source line."""
        text = linecache.getline(self.file, self.number).strip() if self.file else ""
        return f"{text[:MAX_CODE]}{'…' * (len(text) > MAX_CODE)}"


@dataclass(frozen=True)
class Gap:
    """One result that differs in float64."""

    name: str  # "the result", "['loss']", "d w"
    size: float  # the distance of both, relative to the result's norm; infinite if only one of both is finite
    state: str  # the arguments, "as given"


@dataclass(frozen=True)
class Rounding:
    """How far each function, as it runs, is from its own float64; relative to the norm of the results."""

    old: float
    new: float
    type: str  # the narrowest type of floats, "bf16"

    @property
    def ratio(self) -> float:
        """How much further the new function rounds than the old one; infinite if the old one is exact."""
        return self.new / self.old if self.old else (inf if self.new else 1.0)

    def __str__(self) -> str:
        """Return the sentence."""
        if not self.old and not self.new:
            return "neither rounds"
        if not isfinite(self.ratio):
            return f"new rounds by {self.new:.1g}, and old is exact"
        return f"new rounds {self.ratio:.1f} × as far"


@dataclass(frozen=True)
class Result:
    """Whether two functions compute the same. `bool(result)` is `result.same`."""

    same: bool
    largest: float  # relative difference of a result in float64: at the differing state, else at the given arguments
    rounding: Rounding
    results: tuple[str, ...]  # names of the compared results
    states: tuple[str, ...]  # at which both were evaluated
    gaps: tuple[Gap, ...] = ()  # at the first state that differs, the largest first
    roots: tuple[Root, ...] = ()  # where the difference begins, in the order of the program
    untried: tuple[
        str, ...
    ] = ()  # conditions of one function alone that went one way in every state; states for want of time
    notes: tuple[str, ...] = ()  # differences at ties, at zeros and at NaN, which are no other function
    one_program: bool = False  # both lower to one program: nothing was evaluated
    names: tuple[str, str] = ("old", "new")
    seconds: float = field(default=0.0, compare=False)

    def __bool__(self) -> bool:
        return self.same

    def __str__(self) -> str:
        """Return the result in up to five lines."""
        return "\n".join(line for line in self._lines() if line)

    def _repr_html_(self) -> str:
        """Return the result as a notebook draws it: the word, its lines, and a bar for each result that differs."""
        first, *lines = [line for line in self._lines() if line]
        colour = SAME if self.same else OTHER
        parts = [f'<p><b style="color:{colour}">{"=" if self.same else "≠"}</b> {escape(first)}</p>']
        if self.gaps:
            parts.append(f"<table>{''.join(map(_draw_gap, self.gaps[:SHOWN]))}</table>")
        rows = [(line.strip()[:12].strip(), line.strip()[12:].strip()) for line in lines]
        cells = "".join(f"<tr><td>{escape(name)}</td><td>{escape(text)}</td></tr>" for name, text in rows)
        return "".join(parts) + (f"<table>{cells}</table>" if cells else "")

    def explain(self) -> str:
        """Return one sentence: what differs, and where the difference begins."""
        if self.same:
            return f"one function: {self._equal()}"
        worst = self.gaps[0]
        how = f"differs by {worst.size:.1e} in float64" if isfinite(worst.size) else "is finite in one of both only"
        where = "" if worst.state == "as given" else f" at other arguments ({worst.state})"
        first = f", first at {self.roots[0].line}" if self.roots else ""
        return f"{worst.name} {how}{where}{first}"

    def _equal(self) -> str:
        if self.one_program:
            return "both lower to one program"
        how = f"equal to {self.largest:.1e}" if self.largest else "equal in every bit"
        counts = [
            f"{len(one)} {word}{'s'[: len(one) != 1]}"
            for one, word in ((self.results, "result"), (self.states, "state"))
        ]
        return f"{' at '.join(counts)}, {how} in float64"

    def _lines(self) -> list[str]:
        if self.one_program:
            return [f"same function: {self._equal()}"]
        lines = [
            f"{'same function' if self.same else 'another function'}: {self._equal() if self.same else self.explain()}"
        ]
        if len(self.gaps) > 1:
            more = [f"{one.name} {one.size:.1e}" for one in self.gaps[1 : SHOWN + 1]]
            lines.append(f"  also        {', '.join(more)}{' …' * (len(self.gaps) > SHOWN + 1)}")
        if self.roots:
            shown = [f"{one.line} `{one.code}`" for one in self.roots[:2]]
            lines.append(f"  begins at   {'; '.join(shown)}")
        lines.append(
            f"  as run      {self.rounding} ({self.rounding.old:.1e} → {self.rounding.new:.1e}, {self.rounding.type})"
        )
        if self.same:
            lines.append(f"  results     {_join(self.results)}")
            lines.append(f"  not tried   {_join(self.untried)}" if self.untried else "")
        lines.append(f"  note        {_join(self.notes)}" if self.notes else "")
        return lines[:5]


def _draw_gap(gap: Gap) -> str:
    """Return the table's row of a result: its name, a bar on a logarithmic scale of 1e-16 to 1, its distance."""
    share = 1.0 if not isfinite(gap.size) else min(max(1 + log10(max(gap.size, 1e-16)) / 16, 0.0), 1.0)
    bar = f'<div style="width:{100 * share:.0f}px;height:8px;background:{OTHER}"></div>'
    return f"<tr><td>{escape(gap.name)}</td><td>{bar}</td><td>{gap.size:.1e}</td></tr>"


def _join(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:SHOWN])}{f' and {len(words) - SHOWN} more' * (len(words) > SHOWN)}"
