"""Writes the answer of invariants for the terminal and for a pull request, in at most twenty lines."""

from collections.abc import Iterator

from questions.invariants.twin_records import InvariantsRecord, TwinResult
from tasks.records.function import show_relative
from tasks.records.text import counted

MAX_BROKEN, MAX_SILENT = 8, 4
WIDTH = 116


def describe_invariants(record: InvariantsRecord, *, full: bool = False) -> list[str]:
    """Return the lines of the answer. full: a line for every twin in every case."""
    mark = {0: "✓", 1: "✗", 3: "–"}[record.exit_status]
    lines = [f"{mark} {record.headline}"]
    several = len(record.cases) > 1
    broken = [*record.having("another")]
    for one in broken if full else broken[:MAX_BROKEN]:
        first = f", first at {one.first}" if one.first else ""
        broke = f" · broke at {at}" if (at := record.broke.get(f"{one.twin} {one.case}")) else ""
        lines.append(f"✗ {name_twin(one, several)}: {one.sentence}{first}{broke}")
    if not full and len(broken) > MAX_BROKEN:
        lines.append(f"✗ … {len(broken) - MAX_BROKEN} more: --full")
    same = [*record.having("same")]
    if full:
        lines += [f"✓ {name_twin(one, several)}: {one.sentence}" for one in same]
    elif same:
        lines += _wrap("✓ ", list(_group_same(record)))
        worst = max(one.gap or 0.0 for one in same)
        figure = f"equal to {worst:.1g}" if worst else "equal in every bit"
        lines.append(f"  {counted(len(same), 'pair')} in float64, three steps each: {figure}")
    silent = [*record.having("not evaluated")]
    lines += [
        f"– {name_twin(one, several)}: not evaluated: {one.sentence}"
        for one in (silent if full else silent[:MAX_SILENT])
    ]
    if not full and len(silent) > MAX_SILENT:
        lines.append(f"– … {len(silent) - MAX_SILENT} more: --full")
    unfit = [*record.having("not applicable")]
    if full or len(unfit) == len(record.results):
        shown = unfit if full else unfit[:MAX_BROKEN]
        lines += [f"  {name_twin(one, several)}: not applicable: {one.sentence}" for one in shown]
    elif unfit:
        titles = dict.fromkeys(one.title for one in unfit)
        everywhere = [title for title in titles if not any(one.title == title for one in record.having(
            "same", "another", "not evaluated"))]  # fmt: skip
        if everywhere:
            lines += _wrap("  not applicable: ", everywhere)
    if record.planted:
        lines += list(describe_planted(record, full=full))
    return lines


def describe_planted(record: InvariantsRecord, *, full: bool = False) -> Iterator[str]:
    """Yield the lines about planted changes."""
    tried = [one for one in record.planted if one.is_reported is not None]
    faults, others = [one for one in tried if one.is_fault], [one for one in tried if not one.is_fault]
    found, silent = sum(bool(one.is_reported) for one in faults), sum(not one.is_reported for one in others)
    yield (
        f"planted: {found} of {counted(len(faults), 'fault')} found, "
        f"{silent} of {counted(len(others), 'refactoring')} silent"
    )
    for one in record.planted if full else tried:
        wrong = one.is_reported is not None and one.is_reported != one.is_fault
        if full or wrong:
            word = "not tried" if one.is_reported is None else "found" if one.is_reported else "silent"
            yield f"{'✗' if wrong else ' '} {one.twin} {one.case}: {one.change}: {word}: {one.sentence}"


def name_twin(one: TwinResult, several: bool) -> str:
    """Return the name of a result: with its case, if there are several."""
    return f"{one.title} · {one.case}" if several else one.title


def _group_same(record: InvariantsRecord) -> Iterator[str]:
    tried = {"same", "another", "not evaluated"}
    for twin in record.twins:
        own = [one for one in record.results if one.twin == twin and one.answer in tried]
        same = [one for one in own if one.answer == "same"]
        if same:
            several = f" ({len(same)} of {len(own)} cases)" if len(record.cases) > 1 and len(same) < len(own) else ""
            yield f"{same[0].title}{several}"


def _wrap(head: str, items: list[str]) -> Iterator[str]:
    line = head
    for n, item in enumerate(items):
        more = f"{item}{' · ' if n + 1 < len(items) else ''}"
        if len(line) > len(head) and len(line) + len(more) > WIDTH:
            yield line.rstrip()
            line = " " * len(head)
        line += more
    yield line


def describe_markdown(record: InvariantsRecord, page: str) -> str:
    """Return the answer as a comment on a pull request: the headline, and the matrix of twins and cases."""
    lines = [
        f"**{record.headline}**",
        "",
        f"| twin | {' | '.join(record.cases)} |",
        f"|---|{'---|' * len(record.cases)}",
    ]
    for twin in record.twins:
        own = {one.case: one for one in record.results if one.twin == twin}
        if all(one.answer == "not applicable" for one in own.values()):
            continue
        title = next(iter(own.values())).title
        lines.append(f"| {title} | {' | '.join(show_matrix_cell(own.get(case)) for case in record.cases)} |")
    for one in record.having("another"):
        lines += ["", f"✗ {one.title} · {one.case}: {one.sentence}{f', first at {one.first}' if one.first else ''}"]
    return "\n".join([*lines, "", f"✓ same function in float64 · ✗ another · – not evaluated · page: {page}", ""])


def show_matrix_cell(one: TwinResult | None) -> str:
    """Return a cell of the matrix: a mark with its figure."""
    if one is None or one.answer == "not applicable":
        return ""
    if one.answer == "not evaluated":
        return "–"
    if one.answer == "another":
        size = one.gradients or one.gap
        return f"✗ {show_relative(size)}" if size else "✗"
    return f"✓ {one.gap:.0e}" if one.gap else "✓ 0"
