"""Takes off what others put around a log: compression, exports, prefixes of each line, colours, progress bars.

Lines and offsets of a reading then refer to the text that is left, which `copy_log` writes.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

from tasks.scrape.errors import LogFormatError
from tasks.scrape.wrappings.clean import CleanText
from tasks.scrape.wrappings.entries import MARKS, count_steps, frames_of, read_csv, read_json, read_notebook
from tasks.scrape.wrappings.ordered import OrderedEntries
from tasks.scrape.wrappings.prefixes import CRI, EXPORTED, NO_POD, POD, starts_most_lines, written_lines
from tasks.scrape.wrappings.recode import UTF16, from_utf16, has_no_breaks, recodings, whole_lines, without_no_breaks
from tasks.scrape.wrappings.unpack import GZIP, ZSTD, gunzip, has_checksum, unzstd

type Chunks = Callable[[], Iterator[bytes]]

HEAD = 1 << 20  # bytes in which a wrapping shows itself
_NOTEBOOK = re.compile(rb'\{\s*"(?:cells|metadata|nbformat)[^{]*')


@dataclass(frozen=True)
class Unwrapped:
    """The logs that were inside: the text of each by the name of its source, "" where nothing names one."""

    logs: dict[str, CleanText]
    wrappings: dict[str, None]  # filled while the text is read: colours may come late
    lost: list[int] = field(default_factory=list)  # of each entry that was left out, how many step lines it holds
    checked: bool = True  # damage to the archive would have shown

    def note(self, wrapping: str) -> None:
        """Remember a wrapping that was found."""
        self.wrappings.setdefault(wrapping)

    def lose(self, text: str) -> None:
        """Remember that an entry with this text was damaged and left out."""
        if text.strip(" \t\r\n,]"):  # what closes the export is none
            self.lost.append(count_steps(text))


@contextmanager
def unwrap(raw: Chunks, name: str) -> Iterator[Unwrapped]:
    """Unwrap a file that `raw` reads from its start as often as called. Raises LogFormatError for damaged archives."""
    packed = _head(raw)
    labels, chunks = unpack(raw, packed, name)
    wrappings = dict.fromkeys(labels)
    head = _head(chunks)
    if has_no_breaks(head):
        wrappings.setdefault("no-break spaces")
        chunks = _piped(chunks, without_no_breaks)
        head = _head(chunks)
    for wrapping, through in recodings(head):
        wrappings.setdefault(wrapping)
        chunks = _piped(chunks, through)
        head = _head(chunks)
    with ExitStack() as stack:
        found = Unwrapped({}, wrappings, checked=not packed.startswith(ZSTD) or has_checksum(packed))
        for source, text in _sources(head, chunks, found, stack, name).items():
            found.logs[source] = CleanText(text, found.note)
        try:
            yield found
        finally:
            found.logs.clear()  # they hold `found`, and entries that need much memory


def unpack(raw: Chunks, head: bytes, name: str) -> tuple[tuple[str, ...], Chunks]:
    """The archives that a file is, from the outside, its encoding, and what is in them; `head` is how it begins."""
    labels: tuple[str, ...] = ()
    chunks = raw
    for magic, label, unpacked in ((GZIP, "gzip", gunzip), (ZSTD, "zstd", unzstd)):
        if head.startswith(magic):
            labels = (*labels, label)
            chunks = _piped(chunks, partial(unpacked, name=name))
            head = _head(chunks)
    if head.startswith(UTF16):
        labels = (*labels, "UTF-16")
        chunks = _piped(chunks, from_utf16)
    return labels, chunks


def _sources(head: bytes, chunks: Chunks, found: Unwrapped, stack: ExitStack, name: str) -> dict[str, Chunks]:
    first = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if first.startswith(b"{") and _NOTEBOOK.match(first) and b'"cell_type"' in head:
        found.note("notebook")
        try:
            return {cell: partial(iter, [text]) for cell, text in read_notebook(chunks()).items()}
        except LogFormatError as error:
            raise LogFormatError(f"{name}: {error}") from error
    if first[:1] in (b"{", b"[") and first.lstrip(b"[ \t\r\n").startswith(b"{") and MARKS.search(head):
        found.note("JSON export")
        return _ordered(OrderedEntries(frames_of(read_json(chunks(), found.lose), found.lose), stack))
    header = first.split(b"\n", 1)[0]
    if b"timestamp" in header and (b"textPayload" in header or b"jsonPayload." in header) and b"," in header:
        found.note("CSV export")
        return _ordered(OrderedEntries(frames_of(read_csv(chunks(), found.lose), found.lose), stack))
    if starts_most_lines(POD, head):
        found.note("kubectl prefixes")
        pods = dict.fromkeys(pod for lines in whole_lines(chunks()) for pod in POD.findall(lines))
        if len(pods) > 1:  # a line that lost its prefix is nobody's
            for lines in whole_lines(chunks()):
                for line in NO_POD.findall(lines):
                    found.lose(line.decode("utf-8", "replace"))
        if len(pods) == 1:
            return {next(iter(pods)).decode("utf-8", "replace"): partial(_strip, POD, chunks)}
        return {pod.decode("utf-8", "replace"): partial(_lines_of, pod, chunks) for pod in pods}
    if starts_most_lines(CRI, head):
        found.note("container runtime's prefixes")
        return {"": lambda: written_lines(whole_lines(chunks()))}
    if starts_most_lines(EXPORTED, head):
        found.note("export prefixes")
        return {"": partial(_strip, EXPORTED, chunks)}
    return {"": chunks}


def _ordered(entries: OrderedEntries) -> dict[str, Chunks]:
    return {source: partial(entries.text, source) for source in entries.sources}


def _strip(prefix: re.Pattern[bytes], chunks: Chunks) -> Iterator[bytes]:
    for lines in whole_lines(chunks()):
        yield prefix.sub(b"", lines)


def _lines_of(pod: bytes, chunks: Chunks) -> Iterator[bytes]:
    own = re.compile(rb"(?m)^\[pod/%s\] (.*(?:\n|\Z))" % re.escape(pod))
    for lines in whole_lines(chunks()):
        yield b"".join(own.findall(lines))


def _piped(chunks: Chunks, through: Callable[[Iterator[bytes]], Iterator[bytes]]) -> Chunks:
    return lambda: through(chunks())


def _head(chunks: Chunks) -> bytes:
    head = b""
    for chunk in chunks():
        head += chunk[: HEAD - len(head)]
        if len(head) >= HEAD:
            break
    return head
