"""Records of a restore: the notes of arrays, and what became of each saved array in the run that restored it."""

from collections.abc import Sequence
from typing import Any, Literal

from configs.frozen import Frozen
from tasks.records.observation import Role
from tasks.records.text import counted

RestoredWord = Literal[
    "equal",  # every bit
    "cast",  # the saved values in another type, or rounded to a narrower one
    "zeros",
    "untouched",  # the value with which the run began, as if nothing had been restored
    "older",  # the value of another step's state
    "moved",  # the values of another array, of another layer, or transposed
    "other",
    "missing",  # saved, and the step is not given it
    "not saved",  # the step is given it, and the checkpoint lacks it
]


class ArrayPart(Frozen):
    """The note of the part of an array that one process holds."""

    box: tuple[tuple[int, int], ...]  # start and end on each axis
    dtype: str
    digest: str
    zeros: bool
    norm: float | None
    sample: tuple[float | int | str, ...]


class NotedArray(Frozen):
    """What tells one array from another one: its digests, and some of its values (`maxview_probe.observe`)."""

    name: str
    role: Role
    meaning: str
    shape: tuple[int, ...]
    dtype: str
    fed: bool = False  # it was a result of the step's previous call
    digest: str = ""  # of the whole array's bits; empty: `parts` has the digests
    zeros: bool = False
    norm: float | None = None
    sample: tuple[float | int | str, ...] = ()
    narrow: tuple[str, ...] = ()  # the narrower types that hold every value
    turned: str = ""  # the digest with the last two axes swapped
    slices: dict[int, tuple[str, ...]] = {}  # axis → digest of each slice along it
    parts: tuple[ArrayPart, ...] = ()


class NotedState(Frozen):
    """The arguments of one call of a trainer's step, or the arrays of a checkpoint."""

    title: str = ""
    step: str | None = None  # the step's function; None: a checkpoint
    call: int = 0  # of the step in its process, from 0: so many updates were made before
    arrays: tuple[NotedArray, ...] = ()


class RestoredArray(Frozen):
    """What the step of a resumed run is given for a saved array."""

    name: str  # as the step's argument; for a missing one as saved
    role: Role
    word: RestoredWord
    detail: str = ""  # the word with its facts: `cast: float32 → bfloat16 → float32`; empty: the word says all
    is_fault: bool = True

    def __str__(self) -> str:
        """The array with what became of it."""
        return f"{self.name}: {self.detail or self.word}"


class Restored(Frozen):
    """The comparison of a resumed run's first arguments with what was saved; faults first."""

    source: str  # the checkpoint, or the state that was saved, in words
    arrays: tuple[RestoredArray, ...] = ()
    problem: str = ""  # why nothing was compared; empty: it was
    notes: tuple[str, ...] = ()  # of the batch, and of the files that were read
    reads_unfinished: bool = False  # it read files of a save that was not finished
    read: tuple[str, ...] = ()  # files that the run had opened before its first step

    @property
    def faults(self) -> tuple[RestoredArray, ...]:
        """The arrays that are not what was saved."""
        return tuple(array for array in self.arrays if array.is_fault)

    @property
    def equal(self) -> tuple[RestoredArray, ...]:
        """The arrays with every bit as saved."""
        return tuple(array for array in self.arrays if array.word == "equal")

    @property
    def holds(self) -> bool | None:
        """Whether everything was restored as saved; None if nothing was compared."""
        return None if self.problem or not self.arrays else not self.faults and not self.reads_unfinished

    @property
    def restores_nothing(self) -> bool:
        """Whether all that training changes is as at the start of a run without a checkpoint."""
        return bool(self.faults) and all(array.word == "untouched" for array in self.arrays if array.word != "equal")

    @property
    def summary(self) -> str:
        """The result in a sentence."""
        if self.problem or not self.arrays:
            return self.problem or "no array was compared"
        if self.restores_nothing:
            return f"nothing was restored: {counted(len(self.faults), 'array')} as at the start of a new run"
        every = len(self.arrays)
        if self.faults:
            parts = [f"{len(self.faults)} of {counted(every, 'array')} not as saved: {self.faults[0]}"]
        else:
            parts = [f"{counted(len(self.equal), 'array')} restored as saved, in every bit"]
        more = self.faults[1:3] or tuple(one for one in self.arrays if one.word != "equal")[: 1 - len(self.faults[:1])]
        parts += [*map(str, more), *([f"and {len(self.faults) - 3} more"] if len(self.faults) > 3 else []), *self.notes]
        return "; ".join(parts)


def merge_notes(files: Sequence[dict[str, Any]], title: str = "") -> NotedState:
    """Return the state of one call from the notes of all processes, whose parts are put together."""
    first, *others = files
    parts = [{one["name"]: one.get("parts", ()) for one in other["arrays"]} for other in others]
    arrays = [
        one | ({"parts": [*one["parts"], *(part for more in parts for part in more.get(one["name"], ()))]}
               if "parts" in one else {})
        for one in first["arrays"]
    ]  # fmt: skip
    return NotedState.model_validate({"title": title, "step": first["step"], "call": first["call"], "arrays": arrays})
