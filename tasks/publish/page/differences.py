"""Compares the settings of both arms' first runs for the page: configuration, environment, packages, parameter tree.

An arm is one of the two compared versions.
"""

from collections.abc import Mapping
from itertools import takewhile

from configs.frozen import Frozen
from tasks.records.run import RunRecord
from tasks.records.shared_fields import Source
from tasks.records.text import shorten, visible

MAX_VALUE_LENGTH = 400  # characters of a setting's value; longer values are shortened


class Setting(Frozen):
    """One setting on both sides: (baseline, candidate)."""

    name: str
    values: tuple[str | None, str | None]  # None if a side lacks the setting
    origins: tuple[str, str] = ("", "")  # file and line that set it; empty if unknown
    sources: tuple[Source | None, Source | None] = (None, None)  # line of the log that prints it, if any

    @property
    def differs(self) -> bool:
        return self.values[0] != self.values[1]

    @property
    def parts(self) -> tuple[tuple[str, str, str], ...]:
        """Each side as (common prefix, difference, common suffix).

        (text, "", "") if the sides are equal or have less than half of the shorter text in common.
        """
        left, right = (value or "" for value in self.values)
        begin = _count_common(left, right)
        end = _count_common(left[begin:][::-1], right[begin:][::-1])
        if not self.differs or 2 * (begin + end) < max(1, min(len(left), len(right))):
            return (left, "", ""), (right, "", "")
        return tuple((text[:begin], text[begin : len(text) - end], text[len(text) - end :]) for text in (left, right))


class Difference(Frozen):
    """The settings of one kind of both arms, sorted by name; equal ones too."""

    id: str
    title: str
    rows: tuple[Setting, ...]

    @property
    def differing(self) -> list[Setting]:
        return [row for row in self.rows if row.differs]

    @property
    def equal(self) -> list[Setting]:
        return [row for row in self.rows if not row.differs]

    @property
    def alone(self) -> int | None:
        """The side (0 or 1) with settings of this kind if the other side has none, else None."""
        sides = [side for side in (0, 1) if any(row.values[side] is not None for row in self.rows)]
        return sides[0] if len(sides) == 1 else None


def list_differences(baseline: RunRecord | None, candidate: RunRecord | None) -> list[Difference]:
    """Return the settings of both runs by kind, without kinds that neither run has; empty if a record is missing."""
    if baseline is None or candidate is None:
        return []
    runs = baseline, candidate
    kinds = [
        Difference(id="config", title="Configuration", rows=_config(*runs)),
        Difference(id="environment", title="Environment", rows=_rows(*map(_environment, runs))),
        Difference(id="packages", title="Packages", rows=_rows(*(r.plan.versions if r.plan else {} for r in runs))),
        Difference(id="parameters", title="Parameter tree", rows=_rows(*map(_parameters, runs))),
    ]
    return [kind for kind in kinds if kind.rows]


def _config(*runs: RunRecord) -> tuple[Setting, ...]:
    """Return every config key with the file and line that set it, and the log's line that prints it, if known."""
    planned = [{key: str(value) for key, value in (run.plan.config if run.plan else {}).items()} for run in runs]
    origins = [run.plan.origins if run.plan else {} for run in runs]
    return tuple(
        row.replace(
            origins=tuple(visible(origin.get(row.name) or "") for origin in origins),
            sources=tuple(run.reading.sources.get(f"config.{row.name}") for run in runs),
        )
        for row in _rows(*({**run.reading.config, **own} for run, own in zip(runs, planned, strict=True)))
    )


def _environment(run: RunRecord) -> dict[str, str]:
    here = run.reading.environment.model_dump(exclude_none=True)
    mesh = ", ".join(f"{axis} {size}" for axis, size in here.pop("mesh", {}).items())
    values = {name.replace("_", " "): str(value) for name, value in here.items()} | ({"mesh": mesh} if mesh else {})
    return values | (run.plan.environment if run.plan else {})


def _parameters(run: RunRecord) -> dict[str, str]:
    """Return path → type, shape and sharding of every array. Older JAX's `PartitionSpec` becomes newer JAX's `P`."""
    found = {}
    for array in run.reading.parameters.arrays:
        sharding = [f"{name} {spec}" for name, spec in (("logical", array.logical), ("on", array.physical)) if spec]
        words = [array.dtype, "×".join(map(str, array.shape)), *sharding]
        found[array.path] = " ".join(words).replace("PartitionSpec(", "P(")
    return found


def _rows(left: Mapping[str, str], right: Mapping[str, str]) -> tuple[Setting, ...]:
    return tuple(
        Setting(name=visible(name), values=(_value(left.get(name)), _value(right.get(name))))
        for name in sorted(left.keys() | right.keys())
    )


def _value(text: str | None) -> str | None:
    return None if text is None else shorten(visible(text), MAX_VALUE_LENGTH)


def _count_common(left: str, right: str) -> int:
    """Return the length of the common prefix."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))
