"""Chooses the reader of a log by looking at its text: one reader per dialect, all behind the same small interface."""

import re
from dataclasses import dataclass
from typing import Protocol

from tasks.records import RunReading
from tasks.scrape.maxtext import MaxTextReader
from tasks.scrape.megatron import MegatronReader
from tasks.scrape.torchtitan import TorchtitanReader
from tasks.scrape.window import Window


class Reader(Protocol):
    """Reads one run's log, window by window."""

    def feed(self, window: Window) -> None:
        """Take in the next window."""

    def finish(self, *, name: str, span: tuple[int, int]) -> RunReading:
        """Everything that was read."""


@dataclass(frozen=True)
class Dialect:
    """A way of writing logs: its name, and what only its logs contain.

    One of the `hints` stands in every mark: looking for them costs a hundredth of looking for the marks.
    """

    format: str
    example: str  # of its lines, for people
    row: bytes  # stands in each of the rows with its numbers
    hints: tuple[bytes, ...]
    marks: re.Pattern[bytes]
    reader: type[Reader]


# in this order: a Megatron run may stand in an XPK frame too
DIALECTS = (
    Dialect(
        "megatron",
        "' iteration 1/ 20 | consumed samples: …'",
        b"elapsed time per iteration",
        (
            b"iteration ",
            b"iteration=",
            b"elapsed time per",
            b"using world size",
            b" arguments -",
            b"model parallel rank",
        ),
        re.compile(
            rb"iteration[ =] *\d+ */ *(?:\d+|infinity) *\||elapsed time per iteration \(m?s\)|"
            rb"using world size: \d+, data-parallel|-{5,80} arguments -{5,80}|\(tensor, pipeline\) model parallel rank"
        ),
        MegatronReader,
    ),
    Dialect(
        "torchtitan",
        "'step:  1  loss:  8.1309  grad_norm: …'",
        b"  loss: ",
        (b"  loss: ", b"[titan] 20"),
        re.compile(rb"(?<!\w)step: +\d+(?:/\d+ = [\d.]+%)?  loss: +[-+\dni]|\[titan\] 20\d\d-\d\d-\d\d "),
        TorchtitanReader,
    ),
    Dialect(
        "maxtext",
        "'completed step: 0, seconds: …', 'System Information: …', 'XPK Start: …', MaxText's and our own",
        b"completed step: ",
        (
            b"ompleted ",
            b"System Information: ",
            b"XPK ",
            b"EXIT_CODE=",
            b"Config param ",
            b"number parameters: ",
            b"Num_devices: ",
            b".py:",
            b'.py"',
        ),
        re.compile(
            rb"completed step: \d|System Information: Jax |XPK Start: |XPK End: |EXIT_CODE=\d|Config param \w+:|"
            rb"number parameters: [\d.]+ billion|Num_devices: \d+, shape|metric_logger\.py:\d+\]|max_utils\.py:\d+\]|"
            rb"Completed eval (?:step:|after train)|File \"[^\"\n]*/(?:maxtext|MaxText|model)/[^\"\n]*\.py\""
        ),
        MaxTextReader,
    ),
)


def recognise(text: bytes) -> Dialect | None:
    """The dialect of a piece of text; None if it shows no marks of any."""
    for dialect in DIALECTS:
        if any(hint in text for hint in dialect.hints) and dialect.marks.search(text):
            return dialect
    return None


def open_reader(dialect: Dialect) -> Reader:
    """A fresh reader."""
    return dialect.reader()
