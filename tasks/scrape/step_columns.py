"""The step lines of a window as columns: which lines, where they stand, and every value of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.scrape.digits import Mask, Positions, Rows
from tasks.scrape.iso import LENGTH as ISO_LENGTH

type Column = NDArray[np.float64] | NDArray[np.int64] | NDArray[np.str_]


@dataclass(frozen=True)
class StepColumns:
    """Step lines with the same keys, ascending. Positions are those in the window's data."""

    keys: tuple[str, ...]
    record: Positions  # of the prefix, or of `completed` without one
    start: Positions  # of `completed`
    end: Positions  # of the last values
    line: Positions  # the line's number in the file
    step: NDArray[np.int64]
    values: dict[str, Column]
    times: Rows | None  # (rows, 26) characters of ISO 8601 in the year 0; zeros where a line has no time

    @property
    def kind(self) -> tuple[tuple[str, str], ...]:
        """The keys with the kinds of their values: columns that share it are of one piece."""
        return tuple((key, values.dtype.kind) for key, values in self.values.items())

    def pick(self, kept: Mask) -> "StepColumns":
        """Some of the lines."""
        return StepColumns(
            keys=self.keys,
            record=self.record[kept],
            start=self.start[kept],
            end=self.end[kept],
            line=self.line[kept],
            step=self.step[kept],
            values={key: values[kept] for key, values in self.values.items()},
            times=None if self.times is None else self.times[kept],
        )


def merge(columns: Sequence[StepColumns]) -> list[StepColumns]:
    """The same lines with as few columns as their keys allow, in the order of the log."""
    kinds: dict[tuple[tuple[str, str], ...], list[StepColumns]] = {}
    for some in columns:
        kinds.setdefault(some.kind, []).append(some)
    return [_merge_alike(group) for group in kinds.values()]


def _merge_alike(group: list[StepColumns]) -> StepColumns:
    if len(group) == 1:
        return group[0]
    start = np.concatenate([some.start for some in group])
    order: Positions | slice = slice(None)
    if (np.diff(start) < 0).any():
        order = np.argsort(start, kind="stable")
    times = None
    if any(some.times is not None for some in group):
        none = [np.zeros((len(some.start), ISO_LENGTH), np.uint8) for some in group]
        pairs = zip(group, none, strict=True)
        times = np.concatenate([zeros if some.times is None else some.times for some, zeros in pairs])[order]
    return StepColumns(
        keys=group[0].keys,
        record=np.concatenate([some.record for some in group])[order],
        start=start[order],
        end=np.concatenate([some.end for some in group])[order],
        line=np.concatenate([some.line for some in group])[order],
        step=np.concatenate([some.step for some in group])[order],
        values={key: np.concatenate([some.values[key] for some in group])[order] for key in group[0].keys},
        times=times,
    )
