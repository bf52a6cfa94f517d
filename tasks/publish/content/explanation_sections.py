"""Turns an explanation (the causes of a difference) into sections of text, the same for terminal, artifact and page."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tasks.records.explanation import CodeLine, Explanation, LiveBuffer, TimeDifference
from tasks.records.observation import Root

TITLE = "Why they differ"
MIB = 2**20


class Section(NamedTuple):
    """A section: its title, its answer in one sentence, and lines with details, in the order of the explanation."""

    title: str
    sentence: str
    lines: tuple[str, ...] = ()


def list_sections(explanation: Explanation | None) -> list[Section]:
    """Return the sections of an explanation; empty without one."""
    return [] if explanation is None else list(_sections(explanation))


def headline_of(explanation: Explanation) -> str:
    """Return the headline; empty if the sentence of a section has it."""
    repeated = any(explanation.headline in section.sentence for section in _sections(explanation))
    return "" if repeated else explanation.headline


def _sections(one: Explanation) -> Iterator[Section]:
    # the candidate's lines are listed first: of two commits at one line, its own has written what differs
    commits = {(line.file, line.line): line.commit for line in reversed(one.lines) if line.commit}
    if one.function is not None:
        lines = [gap.sentence for gap in one.function.gaps]
        lines += [f"argument without a counterpart: {name}" for name in one.function.unmatched]
        yield Section("the function", one.function.sentence, tuple(lines))
    if one.tensors is not None:
        found, first = one.tensors, one.tensors.first
        sentence = _with_commit(found.sentence, (first,), commits)
        roots = [root for root in found.roots if root.sentence not in found.sentence]
        lines = [_with_commit(root.sentence, (root,), commits) for root in roots]
        lines += [f"only the {row.arm}: {row.count} × {row.operation} {row.type} at {row.place}" for row in found.only]
        yield Section("the first tensor", sentence, (*lines, *found.unmatched_arguments, *found.notes))
    if one.program is not None:
        program = one.program
        own = [row for row in program.operations if row.sentence not in program.sentence]
        lines = [_with_commit(row.sentence, (row.baseline_line, row.candidate_line), commits) for row in own]
        lines += [f"input {row.name}: {row.baseline or 'none'} → {row.candidate or 'none'}" for row in program.inputs]
        lines += program.placements
        lines += [
            f"compiled: {row.what}, {row.where}: {row.baseline} → {row.candidate} ({row.cost})"
            for row in program.compiled
        ]
        yield Section("the program", program.sentence, tuple(lines))
    if one.memory is not None:
        lines = [
            f"{row.baseline_bytes / MIB:,.2f} → {row.candidate_bytes / MIB:,.2f} MiB {row.what}{_place(row)}"
            for row in one.memory.buffers
            if row.baseline_bytes != row.candidate_bytes
        ]
        yield Section("memory", one.memory.sentence, tuple(lines))
    if one.time is not None:
        lines = []
        for row in one.time.differences:
            words = f"{1e3 * row.baseline_s:.2f} → {1e3 * row.candidate_s:.2f} ms {row.what}{_place(row)}"
            lines += [_with_commit(words, (row.baseline_line, row.candidate_line), commits)] if row.sure else []
        yield Section("time", one.time.sentence, tuple(lines))
    if one.lines:
        lines = list(dict.fromkeys(f"{line.commit}: {line.place}" for line in one.lines))
        yield Section("the commits", f"touched between the two refs: {lines[0]}", tuple(lines[1:]))
    if one.notes:
        yield Section("not looked at", one.notes[0], one.notes[1:])


def _place(row: LiveBuffer | TimeDifference) -> str:
    line = row.candidate_line or row.baseline_line
    return f" at {line.place}" if line else ""


def _with_commit(text: str, places: Sequence[CodeLine | Root | None], commits: dict[tuple[str, int], str]) -> str:
    """Return the text and, in square brackets, the last known commit of the places; without one, only the text."""
    found = [commits[place.file, place.line] for place in places if place and (place.file, place.line) in commits]
    return f"{text} [{found[-1]}]" if found else text
