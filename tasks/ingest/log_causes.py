"""Finds what a log tells beside its trainer's lines: causes of death other than exceptions, places, lost lines.

Logs are mapped into memory: only the used parts are read, so that a log of any size fits.
"""

import mmap
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import dropwhile, islice, takewhile
from pathlib import Path

from configs.backends import BACKENDS
from tasks.launch.backend import CAUSE_PATTERN, LOST_PATTERN, PLACE_PATTERN
from tasks.launch.known_backends import launcher_of
from tasks.launch.supervise import CANNOT_START, PEAK, TIMED_OUT
from tasks.records.log_reading import RunReading
from tasks.records.run_end import DeathKind, LogError
from tasks.records.shared_fields import Source
from tasks.scrape.death.causes import classify
from tasks.scrape.prefixes import ABSL
from tasks.scrape.window import text_of

REFUSED = 2  # exit code of programs that refuse their input
# exit code that maxview's supervisor wrote (None: it wrote none) → (type, class, message) of the cause of death
_EXITS: dict[int | None, tuple[str, DeathKind, str]] = {
    None: ("Killed", "killed", "the log ends without an exit code: the process and its supervisor were killed"),
    TIMED_OUT: ("TimeLimit", "timeout", "the time limit was reached"),
    CANNOT_START: ("CannotStart", "configuration", "the command could not be started"),
}
HOST_PEAK_PATTERN = re.compile(rb"^" + PEAK.encode() + rb"(\d+) MiB$", re.MULTILINE)
CHUNK = 4 << 20  # bytes in which line breaks are counted at a time
MAX_LINES = 20  # limit of lines in a refusal
TRACEBACK = "Traceback (most recent call last)"
FRAME = re.compile(r'File "([^"\n]+)", line (\d+)(?:, in (\S+))?')  # a stack frame in a traceback
TRACEBACK_BYTES = 1 << 18  # before the message of an error; a longer traceback loses its outermost frames
OTHERS_FOLDER = "/site-packages/"  # an environment may lie in the checkout
# lines that are no part of a refusal: empty lines, lines of loggers, of maxview or around a run (`XPK Start: `), and
# source locations of C++ libraries
_OTHERS = re.compile(
    rb"\s*\Z|" + ABSL + rb"|XPK (?:Start|End): |[^\n]{0,40}\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d|maxview: |\S+\.cc:\d+\s*\Z"
)

type Text = mmap.mmap | bytes


def find_lost_lines(log: Path, span: tuple[int, int]) -> tuple[str, ...]:
    """Return the launcher's notes about log lines that could not be read from the cluster: which period, and why."""
    with mapped(log, span) as (data, begin, end):
        found = LOST_PATTERN.finditer(data, begin, end)
        return tuple(text_of(match[0]).removeprefix("maxview: ") for match in found)


def with_place(reading: RunReading, log: Path) -> RunReading:
    """Return the reading with the cluster and nodes of its run, if the launcher noted them in the log.

    The places of a run that was restarted elsewhere are joined.
    """
    with mapped(log, reading.span) as (data, begin, end):
        places = dict.fromkeys(text_of(match[1]) for match in PLACE_PATTERN.finditer(data, begin, end))
    place = "; then ".join(places) or reading.environment.place
    return reading.replace(environment=reading.environment.replace(place=place))


def read_host_peak(reading: RunReading, log: Path) -> int | None:
    """Return the bytes of the largest resident memory that the supervisor noted in the log; None without the note."""
    with mapped(log, reading.span) as (data, begin, end):
        peaks = [int(match[1]) for match in HOST_PEAK_PATTERN.finditer(data, begin, end)]
    return max(peaks) * 2**20 if peaks else None


def with_cause(reading: RunReading, log: Path, *, supervised: bool) -> RunReading:
    """Return the reading of a failed run with a cause; other readings unchanged.

    The cause is the first of: the cluster's reason, the log's error, the program's refusal of its input, the exit code.

    supervised: maxview's supervisor ran the trainer and writes the exit code, so a missing exit code means that both
    were killed. In other logs a missing exit code means nothing, because most trainers print none.
    """
    if reading.exit_code == 0:
        return reading
    ended = find_platform_cause(log, reading.span)
    if ended is not None:  # the platform's reason outranks the trainer's error
        return reading.died_of(ended)
    if reading.error is not None:
        return reading
    code = reading.exit_code
    if code is None and not supervised:
        return reading
    # maxview's trainer and argparse exit with 2 if they refuse their input
    refused = code == REFUSED and reading.steps.is_empty()
    if refused and (refusal := find_refusal(log, reading.span)):
        return reading.died_of(refusal)
    kind, death, message = _EXITS.get(code) or (
        "ExitCode", "configuration" if refused else "other", f"ended with exit code {code} and no exception in its log"
    )  # fmt: skip
    place = find_end(log, reading.span)
    error = LogError(type=kind, message=message, line=place.line, offset=place.offset, kind=death)
    return reading.died_of(error)


def with_frame(reading: RunReading, log: Path, root: str | None) -> RunReading:
    """Return the reading with the place of its error: the last frame below `root`, a checkout, of the traceback."""
    error = reading.error
    frames = list_frames(log, error) if error is not None and root is not None else []
    own = [match for match in frames if f"{root}/" in match[1] and OTHERS_FOLDER not in match[1]]
    if error is None or not own:
        return reading
    path, line, function = own[-1].groups()
    place = f"{path.partition(f'{root}/')[2]}:{line}" + (f" in {function}" if function else "")
    return reading.replace(error=error.replace(place=place))


def list_frames(log: Path, error: LogError) -> list[re.Match[str]]:
    """Return the stack frames of the error's traceback: (path, line, function), the outermost first."""
    with mapped(log, (0, 0)) as (data, _, _):
        text = text_of(bytes(data[max(0, error.offset - TRACEBACK_BYTES) : error.offset]))
    return list(FRAME.finditer(text[max(0, text.rfind(TRACEBACK)) :]))


@contextmanager
def mapped(log: Path, span: tuple[int, int]) -> Iterator[tuple[Text, int, int]]:
    """Yield (bytes, begin, end): the file mapped into memory, and the byte range of the run in the file."""
    with log.open("rb") as file, ExitStack() as stack:
        data: Text = b""
        with suppress(ValueError):  # an empty file cannot be mapped
            data = stack.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        yield data, *(span if span[1] else (0, len(data)))


def source_at(data: Text, offset: int) -> Source:
    """Return the place of an offset in a log: the line number and the offset."""
    breaks = sum(data[begin : min(begin + CHUNK, offset)].count(b"\n") for begin in range(0, offset, CHUNK))
    return Source(line=breaks + 1, offset=offset)


def find_platform_cause(log: Path, span: tuple[int, int]) -> LogError | None:
    """Return the cluster's reason for ending a job, which the launcher writes at the log's end; or None."""
    with mapped(log, span) as (data, begin, end):
        found = [(one.start(), text_of(one[1]), text_of(one[2])) for one in CAUSE_PATTERN.finditer(data, begin, end)]
        if not found:
            return None
        offset, kind, message = found[-1]
        place = source_at(data, offset)
    known = (launcher_of(name).death_kinds.get(kind) for name in BACKENDS)
    death = next(filter(None, known), None) or classify(f"{kind}: {message}")
    return LogError(type=kind, message=message, line=place.line, offset=place.offset, kind=death)


def find_end(log: Path, span: tuple[int, int]) -> Source:
    """Return the place of a run's end in its log: the text `EXIT_CODE=`, else the last non-empty line."""
    with mapped(log, span) as (data, begin, end):
        offset = data.rfind(b"EXIT_CODE=", begin, end)
        if offset < 0:
            offset = next((start for start, line in lines_back(data, begin, end) if line.strip()), begin)
        return source_at(data, offset)


def find_refusal(log: Path, span: tuple[int, int]) -> LogError | None:
    """Return a program's refusal of its input: the last lines before `XPK End: `, at most MAX_LINES.

    The refusal begins after the last line that matches `_OTHERS`. None if there is no line after it.
    """
    with mapped(log, span) as (data, begin, end):
        end = max(data.rfind(b"XPK End: ", begin, end), begin) or end
        filled = dropwhile(lambda item: not item[1].strip(), lines_back(data, begin, end))
        last = list(islice(takewhile(lambda item: not _OTHERS.match(item[1]), filled), MAX_LINES))
        if not last:
            return None
        place = source_at(data, last[-1][0])
    message = "; ".join(text_of(line).strip() for _, line in reversed(last))
    return LogError(type="ConfigError", message=message, line=place.line, offset=place.offset, kind="configuration")


def lines_back(data: Text, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, line) from the last line to the first."""
    while end > begin:
        last = end - 1 if data[end - 1 : end] == b"\n" else end
        start = max(data.rfind(b"\n", begin, last) + 1, begin)
        yield start, data[start:last]
        end = start
