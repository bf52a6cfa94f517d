"""Takes off what others put around a log: compression, exports, prefixes of each line, colours, progress bars.

Lines and offsets of a reading then refer to the text that is left, which `copy_log` writes.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

from tasks.scrape import cri
from tasks.scrape.clean import CleanText
from tasks.scrape.entries import MARKS, count_steps, frames_of, read_csv
from tasks.scrape.json_blocks import read_json_blocks
from tasks.scrape.ordered import OrderedEntries
from tasks.scrape.recode import UTF16, from_utf16, has_no_breaks, without_no_breaks
from tasks.scrape.unpack import GZIP, ZSTD, gunzip, has_checksum, unzstd

type Chunks = Callable[[], Iterator[bytes]]

HEAD = 1 << 20  # bytes in which a wrapping shows itself
_POD = re.compile(rb"(?m)^\[pod/([^\]\s/]+/[^\]\s/]+)\] ")
_NO_POD = re.compile(rb"(?m)^(?!\[pod/[^\]\s/]+/[^\]\s/]+\] )[^\n]*[^\s][^\n]*$")
# Logs Explorer's text export: severity, time, labels; `kubectl logs --timestamps` has the time alone
_EXPORTED = re.compile(
    rb"(?m)^(?:(?:DEFAULT|DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL|ALERT|EMERGENCY)[ \t]+)?"
    rb"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)(?: \[[\w./-]+: [^\]\n]*\])*(?:[ \t]|$)"
)

LINE_PREFIXES = (_POD, _EXPORTED)


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
    with ExitStack() as stack:
        found = Unwrapped({}, wrappings, checked=not packed.startswith(ZSTD) or has_checksum(packed))
        for source, text in _sources(head, chunks, found, stack).items():
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


def _sources(head: bytes, chunks: Chunks, found: Unwrapped, stack: ExitStack) -> dict[str, Chunks]:
    first = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if first[:1] in (b"{", b"[") and first.lstrip(b"[ \t\r\n").startswith(b"{") and MARKS.search(head):
        found.note("JSON export")
        return _ordered(OrderedEntries(read_json_blocks(chunks(), found.lose), stack))
    header = first.split(b"\n", 1)[0]
    if b"timestamp" in header and (b"textPayload" in header or b"jsonPayload." in header) and b"," in header:
        found.note("CSV export")
        return _ordered(OrderedEntries(frames_of(read_csv(chunks(), found.lose), lose=found.lose), stack))
    if _starts_most_lines(_POD, head):
        found.note("kubectl prefixes")
        pods = dict.fromkeys(pod for lines in _whole_lines(chunks()) for pod in _POD.findall(lines))
        if len(pods) > 1:  # a line that lost its prefix is nobody's
            for lines in _whole_lines(chunks()):
                for line in _NO_POD.findall(lines):
                    found.lose(line.decode("utf-8", "replace"))
        if len(pods) == 1:
            return {next(iter(pods)).decode("utf-8", "replace"): partial(_strip, _POD, chunks)}
        return {pod.decode("utf-8", "replace"): partial(_lines_of, pod, chunks) for pod in pods}
    if _starts_most_lines(cri.LINE, head):
        found.note("container runtime's prefixes")
        return {"": lambda: cri.written_lines(_whole_lines(chunks()))}
    if _starts_most_lines(_EXPORTED, head):
        found.note("export prefixes")
        return {"": partial(_strip, _EXPORTED, chunks)}
    return {"": chunks}


def _ordered(entries: OrderedEntries) -> dict[str, Chunks]:
    return {source: partial(entries.text, source) for source in entries.sources}


def _starts_most_lines(prefix: re.Pattern[bytes], head: bytes) -> bool:
    lines = [line for line in head.split(b"\n", 200)[:200] if line.strip()]
    return bool(lines) and sum(bool(prefix.match(line)) for line in lines) * 2 > len(lines)


def _strip(prefix: re.Pattern[bytes], chunks: Chunks) -> Iterator[bytes]:
    for lines in _whole_lines(chunks()):
        yield prefix.sub(b"", lines)


def _lines_of(pod: bytes, chunks: Chunks) -> Iterator[bytes]:
    own = re.compile(rb"(?m)^\[pod/%s\] (.*(?:\n|\Z))" % re.escape(pod))
    for lines in _whole_lines(chunks()):
        yield b"".join(own.findall(lines))


def _whole_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same text, cut behind line breaks."""
    rest = b""
    for chunk in chunks:
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield rest + chunk[:cut]
            rest = chunk[cut:]
        else:
            rest += chunk
    if rest:
        yield rest


def _piped(chunks: Chunks, through: Callable[[Iterator[bytes]], Iterator[bytes]]) -> Chunks:
    return lambda: through(chunks())


def _head(chunks: Chunks) -> bytes:
    head = b""
    for chunk in chunks():
        head += chunk[: HEAD - len(head)]
        if len(head) >= HEAD:
            break
    return head
