"""Renders a comparison record as a terminal report: the verdict first, the next command last.

An arm is one of the two compared versions.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.rule import Rule
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tasks.publish.content.answer import answer_of, shorten_title
from tasks.publish.content.array_tables import describe_alone, describe_counts, describe_values, name_pair
from tasks.publish.content.checkpoints import STATES, CheckpointLine, State, list_checkpoints
from tasks.publish.content.compared_code import describe_code
from tasks.publish.content.explanation_sections import TITLE, headline_of, list_sections
from tasks.publish.content.time_bars import describe_part, list_parts
from tasks.publish.content.verdict_words import (
    AGAIN,
    EFFECTS,
    GROUPS,
    HOLDS,
    OUTCOMES,
    absent_text,
    describe_coverage,
    list_findings,
    list_rows_to_explain,
    name_group,
    name_heading,
    name_verdict,
    outcome_of,
    show_cells,
    sides_of,
    split_facts,
    threshold_text,
    unbroken,
)
from tasks.publish.terminal.typed_command import as_typed
from tasks.records import CheckpointDifference, ComparisonRecord, Explanation, MetricDiff
from tasks.records.text import visible

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
    console: Console, record: ComparisonRecord, *, page: str | os.PathLike[str] | None = None, link: str | None = None
) -> None:
    """Print the report, then page, link, next step and next command, if known. Addresses and command do not wrap.

    page: the page's path or address. link: another address, which opens the page in a browser.
    """
    console.print(render_terminal(record), crop=False)  # crop=False: paths are not cut off
    for name, text in {"page": page, "link": link}.items():
        if text:
            console.print(Text(f"{name}: {visible(os.fspath(text))}"), soft_wrap=True)
    if record.next_step is not None and record.next_step.sentence:
        console.print(Text(f"to do: {visible(record.next_step.sentence)}"))
    if record.next_command:
        console.print(Text(f"next: {visible(as_typed(record.next_command))}", style="bold"), soft_wrap=True)


def render_terminal(record: ComparisonRecord) -> RenderableType:
    """Return the report. It is legible at 80 columns and without colours; it ends with the verdict and the headline."""
    parts: list[RenderableType] = [*_headline(record), Text(), _arms(record)]
    if record.explanation is not None:
        parts.append(render_explanation(record.explanation))
    parts += _deaths(record)
    parts += _list("Are the two comparable?", _findings(record))
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
    parts += [Text(), _last_line(record)]
    return _Report(Group(*parts))


class _Report:
    """Renders its content with a space in place of each GLUE."""

    def __init__(self, content: RenderableType):
        self.content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for text, style, control in console.render(self.content, options):
            yield Segment(text.replace(GLUE, " "), style, control)


def _headline(record: ComparisonRecord) -> Iterator[RenderableType]:
    outcome = outcome_of(record)
    title = Text(overflow="fold")
    title.append(name_verdict(outcome).upper(), style=OUTCOMES[outcome].style)
    title.append(f"  {visible(record.comparison)} · {visible(record.case)} · {visible(record.target)}")
    yield title
    for line in describe_code(record):
        yield Text(line, style="dim", overflow="fold")
    yield _plain(record.headline)
    if sure := answer_of(record).sure:
        yield Text.assemble(("How sure is that? ", "bold"), sure, overflow="fold")


def _arms(record: ComparisonRecord) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    facts = split_facts(record)
    for side, arm in sides_of(record):
        table.add_row(side, _plain(arm.label))
        if facts[side]:
            table.add_row("", _facts(facts[side]))
        elif not facts["both"]:
            table.add_row("", Text("its log names neither commit nor versions", style="dim"))
        if record.programs is None:
            table.add_row("", Text(describe_coverage(arm), style="dim", overflow="fold"))
    if facts["both"]:
        table.add_row("both", _facts(facts["both"]))
    return table


def _facts(known: Mapping[str, str]) -> Text:
    told = "  ".join(f"{name} {value}".replace(" ", GLUE) for name, value in known.items())
    return Text(told, style="dim", overflow="fold")


def _deaths(record: ComparisonRecord) -> Iterator[RenderableType]:
    for role, arm in sides_of(record):
        if not arm.has_died:
            continue
        code = "" if arm.exit_code is None else f" with exit code {arm.exit_code}"
        line = Text("\n† ", style="bold red", overflow="fold")
        line.append(f"{role} died{code}: ")
        error = arm.cause_of_death
        if error is None:
            line.append("its log names no cause", style="default")
        else:
            line.append(visible(error.summary), style="default")
        yield line
        if error is not None:
            log = visible(arm.logs[0]) if arm.logs else "its log"
            # a separate line without breaks, so that the path can be copied
            yield Text(f"  line {error.line} of {log}", style="dim", no_wrap=True, overflow="ignore")
            yield Text.assemble(("  Will running it again help? ", "bold"), AGAIN[error.kind])


def _findings(record: ComparisonRecord) -> Iterator[Row]:
    for finding, values in list_findings(record):
        word = EFFECTS[finding.effect]
        yield Text(f"{word.sign} {finding.effect}", style=word.style), _plain(finding.message)
        if values:
            yield "", _plain(values, "dim")


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
        for group in GROUPS:
            of_group = [pair for pair in zip(self.record.rows, cells, strict=True) if pair[0].group == group]
            if not of_group:
                continue
            if group != "maxview":  # MaxView's rows need no heading. Inside the table, rich would fold the heading.
                yield Text(f"{'' if first else chr(10)}{name_group(self.record, group)}", style="dim")
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


def _last_line(record: ComparisonRecord) -> Text:
    outcome = outcome_of(record)
    last = Text(name_verdict(outcome).upper(), style=OUTCOMES[outcome].style, overflow="fold")
    return last.append(f"  {shorten_title(visible(record.headline))}", style="default not bold")


def _plain(text: str, style: str = "") -> Text:
    """Return text from outside as rich Text, because rich would parse markup in a plain `str`."""
    return Text(visible(text), style=style, overflow="fold")


def _list(title: str, rows: Iterable[Row]) -> list[RenderableType]:
    """Return a heading and a table of two columns, the first without line breaks; empty without rows."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    if not table.rows:
        return []
    return [Padding(Rule(title, align="left", style="dim", characters="─"), (1, 0, 0, 0)), table]
