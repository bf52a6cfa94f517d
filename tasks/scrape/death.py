"""Finds what ended a run: the last exception of its log, or the line in which it says why it stops."""

import re
from dataclasses import dataclass

from tasks.records import LogError
from tasks.scrape.prefix import ABSL, PREFIX
from tasks.scrape.window import OVERLAP, Window

# with line breaks: indented lines, then `Type: message` where the indentation ends
_HEADER_LINE = re.compile(rb"Traceback \(most recent call last\):[ \t]*\r?\n")
_LAST_LINE = re.compile(rb"([A-Za-z_][\w.]*)(?:: (.*))?")
# without them: the first name of an exception after the last frame
_FRAME = re.compile(rb"File \"[^\"\n]*\", line \d+(?:, in \S+)?")
_NAMED = re.compile(
    rb"(?<=\s)((?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit|Iteration|Warning|Timeout|StopTraining|Group))"
    rb"(?:: ([^\n]*)|(?=\s*\Z))"
)
# the interpreter's clean-up complains in the same form
_IGNORED = re.compile(rb"Exception ignored in[^\n]*\s*\Z")
_STOP = re.compile(
    rb"Traceback \(most recent call last\):|During handling of the above exception|The above exception was the direct|"
    rb"XPK End:|EXIT_CODE=|%s" % ABSL
)


@dataclass(frozen=True)
class Raised:
    """An exception that a log shows, and where its own line begins in the searched bytes."""

    type: str
    message: str
    position: int


def read_exception(data: bytes, position: int) -> Raised | None:
    """The exception of the traceback that starts at a position, in either wrapping; None if it is not there yet."""
    return _read_lines(data, position) or _read_joined(data, position)


def _read_lines(data: bytes, position: int) -> Raised | None:
    header = _HEADER_LINE.match(data, position)
    if header is None:
        return None
    begin, limit = header.end(), min(len(data), position + OVERLAP)
    while begin < limit:
        end = data.find(b"\n", begin, limit)
        end = limit if end < 0 else end
        line = data[begin:end].rstrip()
        # other threads may log between the lines
        if line and not line[:1].isspace() and not PREFIX.match(line):
            last = _LAST_LINE.fullmatch(line)
            return _raised(last[1], last[2], begin) if last else None
        begin = end + 1
    return None


def _read_joined(data: bytes, position: int) -> Raised | None:
    stop = _STOP.search(data, position + 9, position + OVERLAP)
    end = stop.start() if stop else min(len(data), position + OVERLAP)
    frames = list(_FRAME.finditer(data, position, end))
    named = _NAMED.search(data, frames[-1].end() if frames else position + 9, end)
    return _raised(named[1], named[2], named.start()) if named else None


def _raised(kind: bytes, message: bytes | None, position: int) -> Raised:
    return Raised(kind.decode("utf-8", "replace"), (message or b"").decode("utf-8", "replace").strip(), position)


@dataclass
class DeathLog:
    """The last thing that a log gives as a reason to stop."""

    last: LogError | None = None

    def take(self, name: str, match: re.Match[bytes], window: Window) -> None:
        """Note one anchor; those that end no run are ignored."""
        match name:
            case "traceback":
                found = read_exception(window.data, match.start())
                ignored = _IGNORED.search(window.data, max(0, match.start() - 400), match.start())
                if found is not None and ignored is None:
                    self._note(found.type, found.message, found.position, window)
            case "aborted":
                self._note("SystemExit", match[1].decode(), match.start(1), window)
            case "fatal":
                self._note("Fatal", match[1].decode("utf-8", "replace").strip(), match.start(), window)
            case "fatal_python":
                self._note("Fatal Python error", match[1].decode("utf-8", "replace").strip(), match.start(), window)

    def _note(self, kind: str, message: str, position: int, window: Window) -> None:
        source = window.source(position)
        self.last = LogError(type=kind, message=message, line=source.line, offset=source.offset)

    def cause(self, *, exit_code: int | None, last_step: int) -> LogError | None:
        """What ended the run, if it did not end well: an exception after which training went on ended nothing."""
        if self.last is None or exit_code == 0:
            return None
        raised = exit_code is not None and exit_code < 128  # 128 and more: ended by a signal
        return self.last if raised or self.last.offset > last_step else None
