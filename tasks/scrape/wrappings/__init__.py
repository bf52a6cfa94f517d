"""Removes the wrappings of a log: compression, UTF-16, export formats, additions to lines, and control characters.

The line numbers and offsets in a reading (the data parsed from a log) refer to the unwrapped text, which `copy_log`
writes.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial

import zstandard

from tasks.scrape.window import Chunks, LogFormatError, text_of
from tasks.scrape.wrappings import lines
from tasks.scrape.wrappings.exports import ENTRY_KEY, Entries, count_steps, read_json
from tasks.scrape.wrappings.lines import clean
from tasks.scrape.wrappings.unpack import ZSTD, head_of, piped, unpack_archive

_NOTEBOOK = re.compile(rb'\{\s*"(?:cells|metadata|nbformat)[^{]*')
# the header of a CSV export: names of columns
_CSV = re.compile(rb'(?:[^,\s{]+,)*"?(?:textPayload|jsonPayload\.)')


@dataclass(frozen=True)
class Unwrapped:
    """The result of `unwrap`."""

    logs: dict[str, Chunks] = field(default_factory=dict)  # name of a source, e.g. a pod ("" if unnamed) → its text
    # names of the wrappings, as an ordered set; complete after the texts of `logs` were read
    wrappings: dict[str, None] = field(default_factory=dict)
    # number of step lines in each damaged entry, in each line without a pod, and in each source that is no log
    lost: list[int] = field(default_factory=list)
    checked: bool = True  # False for zstd without a checksum, in which damage may stay undetected

    def note(self, wrapping: str) -> None:
        self.wrappings.setdefault(wrapping)

    def count_lost(self, text: str) -> None:
        """Note the number of step lines in a damaged entry of an export, or in a line without a pod."""
        if text.strip(" \t\r\n,]"):  # else it is only blanks or the end of a JSON array
            self.lost.append(count_steps(text))


@contextmanager
def unwrap(raw: Chunks, name: str) -> Iterator[Unwrapped]:
    """Yield the unwrapped logs of the file `raw`, whose name is `name`.

    Raises LogFormatError if the file is damaged, perhaps only when a log is read.
    """
    packed = head_of(raw)
    labels, chunks = unpack_archive(raw, name)
    head = head_of(chunks)  # raises LogFormatError if the beginning of the archive is damaged
    # the zstd tool adds a checksum, most libraries do not
    checked = not packed.startswith(ZSTD) or zstandard.get_frame_parameters(packed).has_checksum
    unwrapped = Unwrapped(wrappings=dict.fromkeys(labels), checked=checked)
    for wrapping, through in lines.recodings(head):
        unwrapped.note(wrapping)
        chunks = piped(chunks, through)
    with ExitStack() as stack:
        for source, text in _sources(chunks, unwrapped, stack, name).items():
            unwrapped.logs[source] = piped(text, partial(clean, note=unwrapped.note))
        yield unwrapped


def _sources(chunks: Chunks, unwrapped: Unwrapped, stack: ExitStack, name: str) -> dict[str, Chunks]:
    """Return name → text of each source in a file, and note its wrappings. stack: closes the export at its end."""
    head = head_of(chunks)
    first = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if first.startswith(b"{") and _NOTEBOOK.match(first) and b'"cell_type"' in head:
        raise LogFormatError(f"{name}: is a notebook; save the output of one cell as a text file")
    header = first.split(b"\n", 1)[0]
    if b"timestamp" in header and b"," in header and _CSV.match(header):
        raise LogFormatError(f"{name}: is a CSV export; download the log as JSON or text")
    if re.match(rb"\[?[ \t\r\n\[]*\{", first) and ENTRY_KEY.search(head):
        unwrapped.note("JSON export")
        entries = stack.enter_context(closing(Entries(read_json(chunks(), unwrapped.count_lost), unwrapped.count_lost)))
        return {source: partial(entries.read_chunks, source) for source in entries.sources}
    if lines.starts_most_lines(lines.POD, head):
        unwrapped.note("kubectl prefixes")
        return _pods(chunks, unwrapped)
    if lines.starts_most_lines(lines.CRI, head):
        unwrapped.note("container runtime's prefixes")
        return {"": piped(chunks, lines.join_cri_lines)}
    if lines.starts_most_lines(lines.EXPORTED, head):
        unwrapped.note("export prefixes")
        return {"": piped(chunks, partial(lines.replace_matches, lines.EXPORTED, b""))}
    return {"": chunks}


def _pods(chunks: Chunks, unwrapped: Unwrapped) -> dict[str, Chunks]:
    """Return name → text of each pod in the output of `kubectl logs --prefix`."""
    pods = dict.fromkeys(pod for block in lines.whole_lines(chunks()) for pod in lines.POD.findall(block))
    if len(pods) == 1:
        return {text_of(next(iter(pods))): piped(chunks, partial(lines.replace_matches, lines.POD, b""))}
    for block in lines.whole_lines(chunks()):  # lines without a prefix are omitted: their pod is unknown
        for line in lines.NO_POD.findall(block):
            unwrapped.count_lost(text_of(line))
    return {text_of(pod): piped(chunks, partial(lines.lines_of_pod, pod)) for pod in pods}
