"""Takes off what others put around a log: compression, exports, prefixes of each line, colours, progress bars.

Lines and offsets of a reading then refer to the text that is left, which `copy_log` writes.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial

from tasks.scrape.window import Chunks, LogFormatError
from tasks.scrape.wrappings.clean import clean
from tasks.scrape.wrappings.exports import MARKS, Entries, count_steps, read_csv, read_json, read_notebook
from tasks.scrape.wrappings.lines import (
    CRI,
    EXPORTED,
    NO_POD,
    POD,
    lines_of,
    recodings,
    replaced,
    starts_most_lines,
    whole_lines,
    written_lines,
)
from tasks.scrape.wrappings.unpack import ZSTD, has_checksum, head_of, piped, unpack

_NOTEBOOK = re.compile(rb'\{\s*"(?:cells|metadata|nbformat)[^{]*')


@dataclass(frozen=True)
class Unwrapped:
    """The logs that were inside: the text of each by the name of its source, "" where nothing names one."""

    logs: dict[str, Chunks] = field(default_factory=dict)
    wrappings: dict[str, None] = field(default_factory=dict)  # filled while the text is read: colours may come late
    lost: list[int] = field(default_factory=list)  # of each entry that was left out, how many step lines it holds
    checked: bool = True  # damage to the archive would have shown

    def note(self, wrapping: str) -> None:
        self.wrappings.setdefault(wrapping)

    def lose(self, text: str) -> None:
        """Remember that an entry with this text was damaged and left out."""
        if text.strip(" \t\r\n,]"):  # what closes the export is none
            self.lost.append(count_steps(text))


@contextmanager
def unwrap(raw: Chunks, name: str) -> Iterator[Unwrapped]:
    """Unwrap a file that `raw` reads from its start as often as called. Raises LogFormatError for damaged archives."""
    packed = head_of(raw)
    labels, chunks = unpack(raw, name)
    found = Unwrapped(wrappings=dict.fromkeys(labels), checked=not packed.startswith(ZSTD) or has_checksum(packed))
    for wrapping, through in recodings(head_of(chunks)):
        found.note(wrapping)
        chunks = piped(chunks, through)
    with ExitStack() as stack:
        for source, text in _sources(chunks, found, stack, name).items():
            found.logs[source] = piped(text, partial(clean, note=found.note))
        yield found


def _sources(chunks: Chunks, found: Unwrapped, stack: ExitStack, name: str) -> dict[str, Chunks]:
    head = head_of(chunks)
    first = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if first.startswith(b"{") and _NOTEBOOK.match(first) and b'"cell_type"' in head:
        found.note("notebook")
        try:
            return {cell: partial(iter, [text]) for cell, text in read_notebook(chunks()).items()}
        except LogFormatError as error:
            raise LogFormatError(f"{name}: {error}") from error
    header = first.split(b"\n", 1)[0]
    for kind, fits, read in (
        (
            "JSON",
            first.lstrip(b"[ \t\r\n").startswith(b"{") and first[:1] in (b"{", b"[") and MARKS.search(head),
            read_json,
        ),
        (
            "CSV",
            b"timestamp" in header and re.search(rb"textPayload|jsonPayload\.", header) and b"," in header,
            read_csv,
        ),
    ):
        if fits:
            found.note(f"{kind} export")
            entries = stack.enter_context(closing(Entries(read(chunks(), found.lose), found.lose)))
            return {source: partial(entries.text, source) for source in entries.sources}
    if starts_most_lines(POD, head):
        found.note("kubectl prefixes")
        return _pods(chunks, found)
    if starts_most_lines(CRI, head):
        found.note("container runtime's prefixes")
        return {"": piped(piped(chunks, whole_lines), written_lines)}
    if starts_most_lines(EXPORTED, head):
        found.note("export prefixes")
        return {"": piped(chunks, partial(replaced, EXPORTED, b""))}
    return {"": chunks}


def _pods(chunks: Chunks, found: Unwrapped) -> dict[str, Chunks]:
    pods = dict.fromkeys(pod for lines in whole_lines(chunks()) for pod in POD.findall(lines))
    if len(pods) == 1:
        return {next(iter(pods)).decode("utf-8", "replace"): piped(chunks, partial(replaced, POD, b""))}
    for lines in whole_lines(chunks()):  # one that lost its prefix is nobody's
        for line in NO_POD.findall(lines):
            found.lose(line.decode("utf-8", "replace"))
    return {pod.decode("utf-8", "replace"): piped(chunks, partial(lines_of, pod)) for pod in pods}
