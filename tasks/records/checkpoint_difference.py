"""How two checkpoints differ: their trees mapped by path, every pair of arrays by dtype, layout and values."""

from typing import Literal

from configs.schema import Frozen

# what an array is to the training: one that only one side has is explained by it
ArrayRole = Literal["parameter", "optimizer", "counter", "random numbers", "quantisation", "other state"]


class ValueDifference(Frozen):
    """How far the values of two arrays lie apart; all of it is 0 for arrays that are equal bit for bit."""

    values: int  # compared
    differing: int = 0  # by their bits
    norm: float = 0.0  # of the difference (Euclidean), in float64
    largest: float = 0.0  # element of the difference, as it is without its sign
    where: tuple[int, ...] = ()  # of the largest, in the array that holds all layers, else in the first checkpoint's
    not_finite: int = 0  # NaN or infinite on one side or both, and not the same bits; in neither norm nor largest
    lost: tuple[int, int] = (0, 0)  # of each side: NaN or infinite where the other side has a number


class ArrayDifference(Frozen):
    """What is the same in both: an array on each side, or one on one side and one for each layer on the other."""

    role: ArrayRole
    names: tuple[str, ...] = ()  # in the first checkpoint; empty: only the other one has it
    other_names: tuple[str, ...] = ()  # several where one array holds all layers and the other checkpoint has each
    layer_axis: int | None = None  # of the array that holds all layers
    shape: tuple[int, ...] = ()  # of one array
    other_shape: tuple[int, ...] = ()
    dtype: str = ""
    other_dtype: str = ""
    sharding: str | None = None  # None: nothing was written down, or the layers lie otherwise
    other_sharding: str | None = None
    values: ValueDifference | None = None

    @property
    def exact(self) -> bool:
        """Whether both sides have it, with the same bits; a counter may have a sign in one (NNX counts without)."""
        same_type = self.dtype == self.other_dtype or self.role == "counter"
        return self.values is not None and not self.values.differing and same_type

    @property
    def is_state(self) -> bool:
        """Whether the training goes on differently without it; the others belong to one implementation alone."""
        return self.role in ("parameter", "optimizer", "counter")


class CheckpointDifference(Frozen):
    """Two steps beside each other: `arrays` by size of their difference, then by path."""

    step: int | None
    path: str
    other_path: str
    arrays: tuple[ArrayDifference, ...] = ()
    seconds: float = 0.0
    committed: tuple[str | None, str | None] = (None, None)  # when each was, ISO 8601: which save of the step it was
    problem: str = ""  # why they could not be compared

    @property
    def equal(self) -> bool:
        """Whether every array that the training needs is on both sides, bit for bit."""
        return not self.problem and all(
            array.exact for array in self.arrays if array.is_state or array.values is not None
        )

    @property
    def compared(self) -> tuple[ArrayDifference, ...]:
        """The arrays whose values were compared."""
        return tuple(array for array in self.arrays if array.values is not None)

    @property
    def differing(self) -> tuple[ArrayDifference, ...]:
        """What the training needs and is not the same on both sides: one side lacks it, or its values differ."""
        return tuple(a for a in self.arrays if not a.exact and (a.is_state or a.values is not None))

    @property
    def summary(self) -> str:
        """`step 9 holds the same bits on both sides (39 arrays)`; or how many differ, or why that is not known."""
        if self.problem:
            return f"not compared: {self.problem}"
        if self.equal:
            return f"step {self.step} holds the same bits on both sides ({_name_arrays(len(self.compared))})"
        first = self.differing[0]
        name = (first.names or first.other_names)[0]
        what = f"largest difference {first.values.largest:.3g}" if first.values else "which one side lacks"
        return f"{_name_arrays(len(self.differing))} of step {self.step} differ, first {name} ({what})"


def _name_arrays(arrays: int) -> str:
    """`1 array`, `39 arrays`."""
    return f"{arrays} array{'' if arrays == 1 else 's'}"
