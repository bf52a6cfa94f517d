"""Records of the difference of two checkpoints: arrays paired by path, and the difference of each pair."""

from typing import Literal

from configs.frozen import Frozen
from tasks.records.text import counted

# an array's role in training
ArrayRole = Literal["parameter", "optimizer", "counter", "random numbers", "quantisation", "other state"]


class ValueDifference(Frozen):
    """The distance between the values of two arrays. All fields but `values` are 0 or empty if the bits are equal."""

    values: int  # number of compared values
    differing: int = 0  # number of values with different bits
    norm: float = 0.0  # Euclidean norm of the difference, in float64
    largest: float = 0.0  # largest absolute difference
    where: tuple[int, ...] = ()  # index of the largest difference; in the stacked array if one side stacks layers
    # number of values with different bits whose difference is NaN or infinite; norm and largest leave them out
    not_finite: int = 0
    lost: tuple[int, int] = (0, 0)  # per checkpoint: number of values that are finite only in the other one


class ArrayDifference(Frozen):
    """Arrays of equal meaning in two checkpoints; one checkpoint may lack them.

    One checkpoint may have a stacked array where the other has one array per layer.
    """

    role: ArrayRole
    names: tuple[str, ...] = ()  # names in the first checkpoint; empty if it lacks the array
    other_names: tuple[str, ...] = ()  # names in the other checkpoint; several names in either: one array per layer
    layer_axis: int | None = None  # axis of the stacked array; None if neither side is stacked
    shape: tuple[int, ...] = ()  # of the array `names[0]`
    other_shape: tuple[int, ...] = ()
    dtype: str = ""  # numpy's name; empty if the checkpoint lacks the array
    other_dtype: str = ""
    sharding: str | None = None  # None if not recorded, or if one side is stacked
    other_sharding: str | None = None
    values: ValueDifference | None = None  # None: not compared, because one side is missing or the shapes differ

    @property
    def exact(self) -> bool:
        """Whether dtypes and bits are equal; the dtype of a counter may differ, because NNX's counters are unsigned."""
        same_type = self.dtype == self.other_dtype or self.role == "counter"
        return self.values is not None and not self.values.differing and same_type

    @property
    def is_state(self) -> bool:
        """Whether the array must exist in both checkpoints; other roles are specific to one implementation."""
        return self.role in ("parameter", "optimizer", "counter")


class CheckpointDifference(Frozen):
    """The difference of two saved steps. `arrays`: missing state first, then by decreasing difference, then by path."""

    step: int | None  # of the first checkpoint; None if its folder has no number
    path: str
    other_path: str
    arrays: tuple[ArrayDifference, ...] = ()
    seconds: float = 0.0  # duration of the comparison
    committed: tuple[str | None, str | None] = (None, None)  # commit times, ISO 8601; None if unknown
    problem: str = ""  # why the checkpoints could not be compared; empty: they were
    # of two runs, compared at their last common step: each later step that one of them lacks, in a sentence
    lacking: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether the checkpoints and all arrays with `is_state` were compared, and all compared arrays are `exact`.

        False if no array was compared.
        """
        return bool(self.compared) and not self.problem and not self.differing

    @property
    def is_blank(self) -> bool:
        """Whether no array was compared, so that the checkpoints are neither equal nor different."""
        return not self.compared and not self.differing

    @property
    def compared(self) -> tuple[ArrayDifference, ...]:
        """The arrays whose values were compared."""
        return tuple(array for array in self.arrays if array.values is not None)

    @property
    def differing(self) -> tuple[ArrayDifference, ...]:
        """The compared arrays that are not `exact`, and the arrays with `is_state` that could not be compared."""
        return tuple(a for a in self.arrays if not a.exact and (a.is_state or a.values is not None))

    @property
    def summary(self) -> str:
        """`step 9 holds the same bits on both sides (39 arrays)`; or the number of differing arrays, or the problem."""
        if self.problem:
            return f"not compared: {self.problem}"
        if self.is_blank:
            return f"no array of step {self.step} was compared"
        if self.equal:
            return f"step {self.step} holds the same bits on both sides ({counted(len(self.compared), 'array')})"
        first = self.differing[0]
        name = (first.names or first.other_names)[0]
        what = f"largest difference {first.values.largest:.3g}" if first.values else "which one side lacks"
        return f"{counted(len(self.differing), 'array')} of step {self.step} differ, first {name} ({what})"
