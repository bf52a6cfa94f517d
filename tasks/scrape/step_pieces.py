"""Turns the step lines of a window into a piece of the table, and the pieces into the table of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from tasks.records import STEP_SCHEMA
from tasks.scrape.consistent import Agreement, agreement_of
from tasks.scrape.digits import Positions
from tasks.scrape.memory import Memory
from tasks.scrape.places import Place, read_places
from tasks.scrape.prefix import iso_time
from tasks.scrape.step_columns import StepColumns
from tasks.scrape.step_frames import arrange, combine, frame_of_columns, frame_of_rows, with_iso_times
from tasks.scrape.stretches import Gaps, find_gaps, loose_in, size_of, spans_of
from tasks.scrape.window import Window

# with more bytes than these left, the layouts of the first lines there are looked for in the whole window
LEARN_FROM = 64 << 10


@dataclass(frozen=True)
class Piece:
    """The step lines of a window, and whether their rows agree with each other."""

    frame: pl.DataFrame
    day: datetime | None  # whose year the times have; None: it is not known yet
    agreement: Agreement


@dataclass(frozen=True)
class Known:
    """The lines of a window that stand in known places, and what lies between them.

    `rest`: what looks like a line there; None if it is so much that layouts are to be learned first. `piece`: there are
    no others, so that these are a piece of the table.
    """

    columns: list[StepColumns]
    gaps: Gaps
    rest: Positions | None
    piece: Piece | None


def read_known(window: Window, places: Sequence[Place], day: datetime | None, memory: Memory | None = None) -> Known:
    """The lines of a window in known places. Touches nothing but `memory`, so it can run beside what has its own."""
    columns = read_places(window, places, memory)
    gaps = find_gaps(spans_of(columns), window)
    if size_of(gaps, window) >= LEARN_FROM:
        return Known(columns, gaps, None, None)
    rest = np.array(list(loose_in(window, gaps)), np.int64)
    return Known(columns, gaps, rest, None if rest.size else make_piece(window, columns, [], day))


def make_piece(
    window: Window, columns: list[StepColumns], rows: list[dict[str, Any]], day: datetime | None
) -> Piece | None:
    """What was read in a window, lines as columns and lines one by one; `day`: of the run's start, if it is known."""
    if not rows and not columns:
        return None
    frames = [frame_of_columns(window, some, day) for some in columns]
    if rows:
        dated = [{**row, "time": iso_time(row["time"], day)} for row in rows] if day else rows
        frames.append(frame_of_rows(dated))
    frame = frames[0] if len(frames) == 1 and not rows else combine(frames).sort("offset")
    return Piece(frame, day, agreement_of(frame))


def join_pieces(pieces: Sequence[Piece], first_day: datetime | None) -> tuple[pl.DataFrame, Agreement | None]:
    """All rows in the order of the log; `time` is ISO 8601 if the day of the run's start is known."""
    if not pieces:
        return pl.DataFrame(schema=STEP_SCHEMA), None
    frames, agreement = [], None
    for piece in pieces:
        frames.append(piece.frame if piece.day and piece.day == first_day else with_iso_times(piece.frame, first_day))
        agreement = agreement.with_next(piece.agreement) if agreement else piece.agreement
    return arrange(combine(frames)), agreement
