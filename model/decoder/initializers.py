"""The distributions of the first weights, the same as MaxText's. numpy draws the values on the host."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

type Initializer = Callable[[np.random.Generator, tuple[int, ...], np.dtype], NDArray[Any]]  # (random, shape, dtype)

# standard deviation of a standard normal distribution that is truncated at ±2
TRUNCATED_DEVIATION = 0.87962566103423978


@dataclass(frozen=True)
class Normal:
    """Normal values of mean 0 and variance 1 / (product of the sizes of `fan_axes`)."""

    fan_axes: tuple[int, ...]
    truncated: bool = False  # truncate at two standard deviations, then rescale to the full variance

    def __call__(self, random: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> NDArray[Any]:
        deviation = math.prod(shape[axis] for axis in self.fan_axes) ** -0.5
        values = random.standard_normal(math.prod(shape), np.float32)
        if self.truncated:
            deviation /= TRUNCATED_DEVIATION
            far = np.flatnonzero(np.abs(values) > 2)
            while far.size:  # draw values beyond ±2 again, until none is left
                values[far] = random.standard_normal(far.size, np.float32)
                far = far[np.abs(values[far]) > 2]
        values *= np.float32(deviation)
        return values.reshape(shape).astype(dtype, copy=False)


def ones(random: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> NDArray[Any]:
    """Return ones."""
    del random
    return np.ones(shape, dtype)


# The keys are the names of modules, or of kinds of modules.
INITIALIZERS: dict[str, Initializer] = {
    "token_embedder": Normal(()),
    "norm": ones,
    "query": Normal((0, 2)),  # 1 / (E·K), not 1 / E: includes the factor 1 / √K of the attention logits
    "key": Normal((0,)),
    "value": Normal((0,)),
    "out": Normal((0, 1)),
    "wi_0": Normal((0,), truncated=True),
    "wi_1": Normal((0,), truncated=True),
    "wo": Normal((0,), truncated=True),
    "logits_dense": Normal((0,), truncated=True),
    "gate": Normal((0,), truncated=True),
    "expert": Normal((1,), truncated=True),
    "low_rank": Normal((0,), truncated=True),  # latent attention: into a low rank and out of it
}
