"""Renders a comparison record in a terminal: its brief in twenty lines, and all of it on request.

An arm is one of the two compared versions.
"""

import os
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.rule import Rule
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tasks.publish.content.array_tables import describe_alone, describe_counts, describe_values, name_pair
from tasks.publish.content.brief import Brief, make_brief
from tasks.publish.content.checkpoints import STATES, CheckpointLine, State, list_checkpoints
from tasks.publish.content.compared_code import describe_code
from tasks.publish.content.compared_facts import ArmFacts, compare_facts
from tasks.publish.content.explanation_sections import TITLE, headline_of, list_sections
from tasks.publish.content.time_bars import describe_part, list_parts
from tasks.publish.content.typed_command import as_typed
from tasks.publish.content.verdict_words import (
    EFFECTS,
    HOLDS,
    MAX_HEADING_LENGTH,
    OUTCOMES,
    absent_text,
    group_rows,
    list_rows_to_explain,
    name_heading,
    name_verdict,
    show_cells,
    sides_of,
    threshold_text,
    unbroken,
    without_sides,
)
from tasks.records.compared_case import ComparisonRecord, MetricDiff
from tasks.records.compared_checkpoints import CheckpointDifference
from tasks.records.explanation import Explanation
from tasks.records.text import shorten, visible

MAX_WHY, MIN_VALUES, MAX_VALUES, BAR = 320, 12, 32, 8  # characters in the brief; cells of a bar
ROW_GAPS = 14  # characters between the cells of a row, and of its sign
MAX_LAST = 4  # lines of the last line of a dead run's log, which has the error with its values
MAX_DIFFERENCES = 6  # limit of differences shown of two compiled programs
MAX_CAUSES = 4  # limit of lines shown per section of an explanation
# checkpoints in these states are listed together, by their steps only
SOUND: frozenset[State] = frozenset({"proved", "retired", "overwritten"})
MAX_ARRAYS = 5  # differing arrays shown; the page has all
type Row = tuple[Text | str, Text]  # both cells of a row in a section, see `_list`
GLUE = "\ue000"  # stands for a non-breaking space, because rich breaks lines at every space of Unicode
GAP = 2  # characters between the columns of a table
MAX_WORD_LENGTH = 14  # characters; longer words in a table may be folded, but no numbers and signs


def print_comparison(
    console: Console,
    record: ComparisonRecord,
    *,
    page: str | os.PathLike[str] | None = None,
    link: str | None = None,
    full: bool = False,
) -> None:
    """Print the brief; with `full`, then the whole report. Addresses and commands do not wrap, so that they are copied.

    page: the page's address, a URL where possible. link: another address, which opens the page in a browser.
    """
    for line in render_brief(record, console.width, bars=console.is_terminal, full=full):
        console.print(line, soft_wrap=True)
    if full:
        console.print(render_details(record), crop=False)
    for name, text in {"page": page, "link": link}.items():
        if text:
            console.print(Text(f"  {name:4}  {visible(os.fspath(text))}"), soft_wrap=True)
    step = record.next_step
    if step is None:
        if done := make_brief(record).done:
            console.print(Text(f"  next  {done}"), soft_wrap=True)
        return
    said = step.sentence if full or not step.argv else step.before
    for line in _fold(visible(said), console.width, "next"):
        console.print(line, soft_wrap=True)
    if step.argv:
        label = "    " if said else "next"
        console.print(Text(f"  {label}  {visible(as_typed(step.command))}", style="bold"), soft_wrap=True)


def render_brief(record: ComparisonRecord, width: int, *, bars: bool, full: bool = False) -> list[Text]:
    """Return the lines of the brief without page and next step. They are legible at 80 columns and without colours.

    bars: draw the levels of step times also as bars. full: the whole report follows, so `--full` is not named.
    """
    brief = make_brief(record)
    lines = [*_title(brief, width), *_fold(f"{brief.sentence} {brief.sure}".rstrip(), width)]
    lines += _fold(brief.evaluated, width) if brief.evaluated else []
    lines += _fold(brief.not_tried, width) if brief.not_tried else []
    lines += _fold(brief.gate, width) if brief.gate else []
    if brief.ticks:
        ticks = "   ".join(f"{OUTCOMES[tick.word].sign} {tick.text}".replace(" ", GLUE) for tick in brief.ticks)
        lines += [Text(), *(Text(line.plain.replace(GLUE, " ")) for line in _fold(ticks, width))]
    if brief.strips:
        lines += [Text(), *_strips(brief, bars=bars)]
    for death in brief.deaths:
        told = ": ".join(filter(None, (death.cause, "" if death.lines else death.message)))
        lines += [Text(), *(_fold(f"† {death.side}: {told}", width, style="red") if told else ())]
        lines += [Text(f"    {_cut(line, width - 4)}", style="dim") for line in death.lines[:-1]]
        lines += [
            Text(f"  {line.plain}", style="dim") for line in _fold("".join(death.lines[-1:]), width - 2)[:MAX_LAST]
        ]
        lines += [Text(f"  {death.place}", style="dim")] if death.place else []
        lines += _fold(death.again, width, "again")
    if brief.rows or brief.more:
        lines.append(Text())
    lines += _rows(brief, width)
    if brief.more and not full:
        lines.append(Text(f"  {brief.more} (--full)", style="dim"))
    lines += [Text(), *_fold(shorten(brief.why, MAX_WHY), width, "why")]
    indent = 8 if brief.why else 2
    styles = {"+": "green", "-": "red"}
    return [
        *lines,
        *(Text(" " * indent + _cut(line, width - indent), style=styles.get(line[0], "dim")) for line in brief.edit),
    ]


def render_first_word(record: ComparisonRecord, width: int) -> list[Text]:
    """Return the verdict's line and its sentence, for the time in which its cause is searched."""
    brief = make_brief(record)
    return [*_title(brief, width), *_fold(brief.sentence, width)]


def _title(brief: Brief, width: int) -> list[Text]:
    word = OUTCOMES[brief.outcome]
    head = f"{word.sign} {brief.word.upper()}"
    title = f"{head}   {brief.title}"
    title += f"   {brief.took}" if brief.took and len(f"{title}   {brief.took}") <= width else ""
    first, *others = textwrap.wrap(title, width, subsequent_indent="  ", break_on_hyphens=False)
    lines = [Text(first, style=word.style), *map(Text, others)]
    lines[0].stylize("default not bold", len(head))
    return lines


def _fold(text: str, width: int, label: str = "", style: str = "") -> list[Text]:
    """Return the text in lines of `width` characters, broken between words and indented behind the label."""
    head = f"  {label:4}  " if label else "  "
    indent = " " * len(head)
    lines = textwrap.wrap(text, width, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False)
    return [Text(line, style=style) for line in lines]


def _strips(brief: Brief, *, bars: bool) -> Iterator[Text]:
    names = [shorten_name(strip.name) for strip in brief.strips]
    for name, strip in zip(names, brief.strips, strict=True):
        cells = [f"  {name:{max(map(len, names))}}"]
        for level in strip.levels:
            bar = f" ▕{'█' * max(1, round(BAR * level.share))}▏" if bars else ""
            cells.append(f"{1e3 * level.seconds:.3g} ms{bar} {level.steps}")
        yield Text("  ".join(cells))


def shorten_name(name: str) -> str:
    """Return an arm's name for a narrow column, with an ellipsis in its middle if it is long."""
    return name if len(name) <= MAX_HEADING_LENGTH else f"{name[:9]}…{name[-6:]}"


def _rows(brief: Brief, width: int) -> Iterator[Text]:
    others = [(row.title, row.percent, row.verdict) for row in brief.rows]
    rest = sum(max(map(len, column)) for column in zip(*others, strict=True))
    room = max(MIN_VALUES, min(MAX_VALUES, width - rest - ROW_GAPS))
    cells = [(row.title, _cut(row.values, room), row.percent) for row in brief.rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row, (title, values, percent) in zip(brief.rows, cells, strict=True):
        word = OUTCOMES[row.verdict]
        line = Text(f"  {title:{widths[0]}}   {values:{widths[1]}}   {percent:>{widths[2]}}   ")
        yield line.append(f"{word.sign} {row.verdict}", style=word.style)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def render_details(record: ComparisonRecord) -> RenderableType:
    """Return everything that the brief leaves out: both arms, findings, all rows, reasons, programs, checkpoints."""
    record = without_sides(record)
    parts: list[RenderableType] = [Text()]
    parts += [Text(line, style="dim", overflow="fold") for line in describe_code(record)]
    facts = compare_facts(record)
    parts += _table(_arms(record, facts))
    if record.explanation is not None:
        parts.append(render_explanation(record.explanation))
    parts += _list("Are the two comparable?", _findings(facts))
    parts += [Text(), _Metrics(record)]
    parts += [_plain(absent_text(record), "dim")] if record.absent else []
    differing = "What differs between the programs, by share of cycles, collective bytes or memory"
    parts += _list(differing, _programs(record))
    parts += _list("Why", _reasons(record))
    parts += _divergence(record)
    parts += _list("Where the time of a run went", _times(record))
    parts += _list("Are they the same by construction?", _floors(record))
    parts += _list("Checkpoints", _checkpoints(record))
    parts += _checkpoint_content(record.checkpoints)
    return _Report(Group(*parts, Text()))


class _Report:
    """Renders its content with a space in place of each GLUE."""

    def __init__(self, content: RenderableType):
        self.content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for text, style, control in console.render(self.content, options):
            yield Segment(text.replace(GLUE, " "), style, control)


def _arms(record: ComparisonRecord, facts: ArmFacts) -> Iterator[Row]:
    """Yield both arms, then the facts that differ without an effect on the verdict, and the equal ones."""
    for side, arm in sides_of(record):
        yield Text(side, style="bold"), _plain(arm.label)
    differing = [
        f"{name} {left}".replace(" ", GLUE) + " → " + right.replace(" ", GLUE) for name, left, right in facts.differing
    ]
    equal = [f"{name} {value}".replace(" ", GLUE) for name, value in facts.equal]
    for title, known in (("differ", differing), ("equal", equal)):
        if known:
            yield Text(title, style="bold"), Text("  ".join(known), style="dim", overflow="fold")


def _findings(facts: ArmFacts) -> Iterator[Row]:
    for row in facts.weighing:
        word = EFFECTS[row.effect]
        yield Text(f"{word.sign} {row.effect}", style=word.style), _plain(row.meaning)
        values = [", ".join(text for text, _ in shown) for shown in (row.baseline, row.candidate)]
        if any(value not in row.meaning for value in values):
            yield "", _plain(f"{row.name}: {' → '.join(value or '—' for value in values)}", "dim")


class _Metrics:
    """The tables of metrics, one per group. Their columns are wide enough for every number if the terminal is."""

    def __init__(self, record: ComparisonRecord):
        self.record = record

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        sides = [name_heading(self.record, arm.name) for _, arm in sides_of(self.record)]
        heads = ["Metric", *sides, "Difference", "Verdict"]
        cells = [_cells(self.record, row) for row in self.record.rows]
        columns = [*zip(heads, *cells, strict=True)]
        widths = share_width(columns, options.max_width - GAP * (len(heads) - 1))
        first = True
        for group, rows in group_rows(self.record).items():
            of_group = [pair for pair in zip(self.record.rows, cells, strict=True) if pair[0] in rows]
            # inside the table, rich would fold the heading
            yield Text(f"{'' if first else chr(10)}{group}", style="dim")
            table = Table(
                box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False, collapse_padding=True,
                show_header=first,
            )  # fmt: skip
            for place, (head, width) in enumerate(zip(heads, widths, strict=True)):
                table.add_column(Text(head), justify="right" if 0 < place < 4 else "left", overflow="fold", width=width)
            for row, (*texts, verdict) in of_group:
                told = Text(verdict, style=OUTCOMES[row.verdict].style)
                table.add_row(*(Text(text, overflow="fold") for text in texts), told)
            yield table
            first = False


def _cells(record: ComparisonRecord, row: MetricDiff) -> list[str]:
    texts = [unbroken(text, GLUE) for text in show_cells(record, row)]
    return [*texts, name_verdict(row.verdict).replace(" ", GLUE)]


def share_width(columns: Sequence[Sequence[str]], room: int) -> list[int | None]:
    """Return the width of each column in characters: its longest word, plus a share of the rest of `room`.

    Each remaining character goes to the column that lacks most. Returns None for every column if the words do not fit.
    """
    widths = [max(map(_least_width, texts)) for texts in columns]
    lack = [max(map(len, texts)) - width for texts, width in zip(columns, widths, strict=True)]
    if room < sum(widths):
        return [None] * len(widths)
    for _ in range(room - sum(widths)):
        place = lack.index(max(lack))
        if lack[place] <= 0:
            break
        widths[place] += 1
        lack[place] -= 1
    return [*widths]


def _least_width(text: str) -> int:
    """Return the width of the longest word. Words without digits and signs are folded at MAX_WORD_LENGTH."""
    words = [(len(word), re.search(r"[\d=✗≠?·]", word)) for word in text.split()]
    return max((length if whole else min(length, MAX_WORD_LENGTH) for length, whole in words), default=0)


def _reasons(record: ComparisonRecord) -> Iterator[Row]:
    """Yield each reason with the titles of its rows, out of `list_rows_to_explain`; nothing if an arm died."""
    groups: dict[str, list[MetricDiff]] = {}
    for row in [] if record.has_died else list_rows_to_explain(record):
        threshold = threshold_text(row)
        reason = visible(row.reason) + (f" [threshold {threshold}]" if threshold not in ("", "exact") else "")
        groups.setdefault(reason, []).append(row)
    for reason, rows in groups.items():
        word = OUTCOMES[rows[0].verdict]
        titles = _plain(", ".join(row.title for row in rows), "bold")
        yield Text(word.sign, style=word.style), titles.append(f": {reason}", style="not bold")


def render_explanation(explanation: Explanation) -> RenderableType:
    """Return the explanation alone: its headline, and the sentence and up to MAX_CAUSES lines of each section."""
    return _Report(Group(*_list(TITLE, _explanation(explanation))))


def _explanation(explanation: Explanation) -> Iterator[Row]:
    if headline := headline_of(explanation):
        yield "", _plain(headline)
    for section in list_sections(explanation):
        yield Text(section.title, style="bold"), _plain(section.sentence)
        for line in section.lines[:MAX_CAUSES]:
            yield "", _plain(line, "dim")


def _programs(record: ComparisonRecord) -> Iterator[Row]:
    """Yield the first differences of two compiled programs, in the record's order, and the number of the others."""
    if record.programs is None:
        return
    for item in record.programs.differences[:MAX_DIFFERENCES]:
        share = Text(f"{100 * item.share:+.1f} %", style="red" if item.share > 0 else "green")
        yield share, _plain(item.what, "bold").append(f"  {visible(item.where)}", style="not bold dim")
        yield "", _plain(f"{item.baseline} → {item.candidate}")
    more = len(record.programs.differences) - MAX_DIFFERENCES + record.programs.left_out
    if more > 0:
        yield "", _plain(f"and {more} smaller ones", "dim")


def _divergence(record: ComparisonRecord) -> Iterator[RenderableType]:
    if record.divergence is None:
        return
    first = record.divergence
    yield Text(
        f"\nFirst differing step: {first.step} ({visible(first.metric)}: {visible(first.baseline)} and "
        f"{visible(first.candidate)}, known to {visible(first.precision)})",
        overflow="fold",
    )


def _times(record: ComparisonRecord) -> Iterator[Row]:
    sides = [(side, list_parts(record, arm.name)) for side, arm in sides_of(record)]
    for side, parts in sides if any(parts for _, parts in sides) else ():
        yield side, _plain(", ".join(describe_part(part).replace(" ", GLUE) for part in parts) or "not known")


def _floors(record: ComparisonRecord) -> Iterator[Row]:
    for floor in record.floors:
        word = OUTCOMES[HOLDS[floor.holds]]
        yield Text(f"{word.sign} {floor.name}", style=word.style), _plain(floor.evidence)


def _checkpoints(record: ComparisonRecord) -> Iterator[Row]:
    listed = [(side, line) for side, arm in sides_of(record) for line in list_checkpoints(arm)]
    sound: dict[tuple[str, str], list[CheckpointLine]] = {}
    for side, line in listed:
        if line.state in SOUND:
            sound.setdefault((side, line.word), []).append(line)
    for (side, _), lines in sound.items():
        yield _state(lines[0]), _plain(f"{side} {', '.join(line.step for line in lines)}")
    for side, line in listed:
        if line.state not in SOUND:
            yield _state(line), _plain(f"{side} {line.step}: {line.proof}; {line.log}")
            for problem in line.problems:
                yield "", _plain(problem, "red")


def _state(line: CheckpointLine) -> Text:
    word = OUTCOMES[STATES[line.state][0]]
    return Text(f"{word.sign} {line.word}", style=word.style)


def _checkpoint_content(found: CheckpointDifference | None) -> Iterator[RenderableType]:
    """Yield the difference of two checkpoints: counts, arrays of one side only, the largest differences.

    If the checkpoints could not be compared, yields the reason instead.
    """
    if found is None:
        return
    if found.problem:
        yield _plain(f"not compared: {found.problem}")
        return
    sign = "✓" if found.equal else "–" if found.is_blank else "✗"
    yield Text(
        f"{sign} step {found.step}, baseline here and candidate there: {describe_counts(found)}", overflow="fold"
    )
    for line in describe_alone(found):
        yield Text(f"  {line}", overflow="fold")
    for array in found.differing[:MAX_ARRAYS]:
        if array.values is not None:
            yield Text(f"  {name_pair(array)}: {describe_values(array)}", overflow="fold")


def _plain(text: str, style: str = "") -> Text:
    """Return text from outside as rich Text, because rich would parse markup in a plain `str`."""
    return Text(visible(text), style=style, overflow="fold")


def _list(title: str, rows: Iterable[Row]) -> list[RenderableType]:
    """Return a heading and the table of the rows; empty without rows."""
    table = _table(rows)
    heading = Padding(Rule(title, align="left", style="dim", characters="─"), (1, 0, 0, 0))
    return [heading, *table] if table else []


def _table(rows: Iterable[Row]) -> list[RenderableType]:
    """Return a table of two columns, the first without line breaks; empty without rows."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    return [table] if table.rows else []
