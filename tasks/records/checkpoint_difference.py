"""The difference of two checkpoints: trees mapped by path, pairs of arrays compared by dtype, layout and values."""

from typing import Literal

from configs.schema import Frozen
from tasks.records.counted import counted

# an array's role in the training; explains arrays that only one side has
ArrayRole = Literal["parameter", "optimizer", "counter", "random numbers", "quantisation", "other state"]


class ValueDifference(Frozen):
    """The distance between the values of two arrays; all 0 if they are equal bit for bit."""

    values: int  # compared
    differing: int = 0  # by their bits
    norm: float = 0.0  # of the difference (Euclidean), in float64
    largest: float = 0.0  # absolute value in the difference
    where: tuple[int, ...] = ()  # index of the largest, in the array with all layers, else in the first checkpoint's
    not_finite: int = 0  # NaN or infinite on some side, with different bits; excluded from norm and largest
    lost: tuple[int, int] = (0, 0)  # per side: NaN or infinite where the other side is finite


class ArrayDifference(Frozen):
    """Arrays with the same meaning: one per side, or one on one side and one per layer on the other."""

    role: ArrayRole
    names: tuple[str, ...] = ()  # in the first checkpoint; empty if it lacks the array
    other_names: tuple[str, ...] = ()  # several if one side has all layers in one array, the other one per layer
    layer_axis: int | None = None  # of the array with all layers
    shape: tuple[int, ...] = ()  # of one array
    other_shape: tuple[int, ...] = ()
    dtype: str = ""
    other_dtype: str = ""
    sharding: str | None = None  # None if not recorded, or the layers differ
    other_sharding: str | None = None
    values: ValueDifference | None = None

    @property
    def exact(self) -> bool:
        """Whether both sides have equal bits; a counter may be signed on one side (NNX's are unsigned)."""
        same_type = self.dtype == self.other_dtype or self.role == "counter"
        return self.values is not None and not self.values.differing and same_type

    @property
    def is_state(self) -> bool:
        """Whether the array influences further training; other arrays are specific to one implementation."""
        return self.role in ("parameter", "optimizer", "counter")


class CheckpointDifference(Frozen):
    """The difference of two steps; `arrays` are sorted by size of their difference, then by path."""

    step: int | None
    path: str
    other_path: str
    arrays: tuple[ArrayDifference, ...] = ()
    seconds: float = 0.0
    committed: tuple[str | None, str | None] = (None, None)  # ISO 8601; identifies the save of the step
    problem: str = ""  # why they could not be compared

    @property
    def equal(self) -> bool:
        """Whether every array that influences training is equal on both sides, bit for bit."""
        return not self.problem and all(
            array.exact for array in self.arrays if array.is_state or array.values is not None
        )

    @property
    def compared(self) -> tuple[ArrayDifference, ...]:
        """The arrays whose values were compared."""
        return tuple(array for array in self.arrays if array.values is not None)

    @property
    def differing(self) -> tuple[ArrayDifference, ...]:
        """The arrays that influence training and are missing on one side or differ in values."""
        return tuple(a for a in self.arrays if not a.exact and (a.is_state or a.values is not None))

    @property
    def summary(self) -> str:
        """`step 9 holds the same bits on both sides (39 arrays)`; or the number of differing arrays, or the problem."""
        if self.problem:
            return f"not compared: {self.problem}"
        if self.equal:
            return f"step {self.step} holds the same bits on both sides ({counted(len(self.compared), 'array')})"
        first = self.differing[0]
        name = (first.names or first.other_names)[0]
        what = f"largest difference {first.values.largest:.3g}" if first.values else "which one side lacks"
        return f"{counted(len(self.differing), 'array')} of step {self.step} differ, first {name} ({what})"
