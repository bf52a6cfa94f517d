"""Brings the entries of an export of any size into their true order and gives the text of each source back."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import polars as pl

IN_MEMORY = 16 << 20  # bytes of entries that are held; more are kept in files
MERGED_ROWS = 100_000  # entries that are ordered at a time where blocks overlap
SAMPLE_EVERY = 500
_ORDER = ["stamp", "order", "number"]

type Key = tuple[str, str, int]


@dataclass(frozen=True)
class _Block:
    """Entries in order, in memory or in a file, with the first and the last key."""

    frame: pl.DataFrame | Path
    first: Key
    last: Key

    def read(self) -> pl.DataFrame:
        """All of its entries."""
        return self.frame if isinstance(self.frame, pl.DataFrame) else pl.read_ipc(self.frame)

    def between(self, first: str | None, end: str | None) -> pl.DataFrame:
        """The entries whose stamp is at least `first` and before `end`."""
        frame = self.frame.lazy() if isinstance(self.frame, pl.DataFrame) else pl.scan_ipc(self.frame)
        stamp = pl.col("stamp")
        within = [stamp >= first] if first is not None else []
        return frame.filter(*within, *([stamp < end] if end is not None else [])).collect()


class OrderedEntries:
    """All entries of an export, in order, as often as asked."""

    def __init__(self, frames: Iterable[pl.DataFrame], stack: ExitStack) -> None:
        self.sources: dict[str, None] = {}
        self._blocks: list[_Block] = []
        folder: Path | None = None
        size = 0
        for frame in frames:
            if frame.is_empty():
                continue
            self.sources.update(dict.fromkeys(frame["source"].unique(maintain_order=True)))
            block = frame if _is_ordered(frame) else frame.sort(_ORDER)
            ends = block.select(_ORDER)
            size += int(block.estimated_size())
            held: pl.DataFrame | Path = block
            if size > IN_MEMORY:
                folder = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
                held = folder / f"{len(self._blocks)}.arrow"
                block.write_ipc(held)
            self._blocks.append(_Block(held, ends.row(0), ends.row(-1)))

    def text(self, source: str) -> Iterator[bytes]:
        """The text of one source in chunks; every entry ends its line, but for those that the next one continues."""
        for frame in self._ordered():
            own = frame if len(self.sources) == 1 else frame.filter(pl.col("source") == source)
            if own.is_empty():
                continue
            if own["open"].any():
                line = pl.col("text").str.strip_chars_end("\n") + "\n"
                lines = own.select(pl.when(_is_continued()).then("text").otherwise(line)).to_series()
                yield lines.str.join("").item().encode()
            else:
                yield own["text"].str.strip_chars_end("\n").str.join("\n").item().encode() + b"\n"

    def _ordered(self) -> Iterator[pl.DataFrame]:
        """The entries in order, frame by frame: blocks as they are, or merged where they overlap."""
        group: list[_Block] = []
        for block in sorted(self._blocks, key=lambda block: block.first):
            if group and block.first > max(other.last for other in group):
                yield from _merge(group)
                group = []
            group.append(block)
        yield from _merge(group)


def _is_continued() -> pl.Expr:
    """Whether the next entry goes on where one that is open ends: the next part, where parts are numbered.

    The one after a frame's last is not known here; it is taken for the next part.
    """
    order, part = pl.col("order"), r"^(.*)/(\d{9})$"
    text, number = order.str.extract(part, 1), order.str.extract(part, 2).cast(pl.Int64)
    follows = (text == text.shift(-1)) & (number + 1 == number.shift(-1))
    is_last = pl.int_range(pl.len()) == pl.len() - 1
    return pl.col("open") & (number.is_null() | is_last | follows.fill_null(value=False))


def _is_ordered(frame: pl.DataFrame) -> bool:
    stamp, order = pl.col("stamp"), pl.col("order")
    after = (stamp > stamp.shift()) | ((stamp == stamp.shift()) & (order >= order.shift()))
    return bool(frame.select(after.fill_null(value=True).all()).item())


def _merge(blocks: list[_Block]) -> Iterator[pl.DataFrame]:
    """The entries of blocks that overlap, in order, some at a time."""
    if len(blocks) < 2:
        yield from (block.read() for block in blocks)
        return
    stamps = pl.concat([block.read()["stamp"].gather_every(SAMPLE_EVERY) for block in blocks]).sort()
    cuts = stamps.gather_every(MERGED_ROWS // SAMPLE_EVERY).unique(maintain_order=True).to_list()
    for first, end in pairwise([None, *cuts, None]):
        parts = [block.between(first, end) for block in blocks]
        yield pl.concat(parts).sort(_ORDER)
