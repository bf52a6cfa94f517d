"""Do two JAX functions compute the same? Which is faster?

    import maxview_probe as mv

    result = mv.same_function(old_norm, new_norm, x, w)
    mv.assert_same_function(flash, reference, q, k, v, grad=True)
    mv.assert_same_program(f, g, x)
    mv.in_turns(f, g, x, seconds=10)

The package is also what maxview runs in a trainer's own Python: it observes the training step, evaluates programs in
float64 and times them in turns. It imports the standard library, the JAX that it finds there, and JAX's own
requirements: NumPy, SciPy, ml_dtypes. Without a call it imports none of them.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxview_probe.library.api import (
        CannotCompare,
        Gap,
        Result,
        Root,
        Rounding,
        Times,
        UntriedWarning,
        assert_same_function,
        assert_same_program,
        in_turns,
        same_function,
    )

__all__ = [
    "CannotCompare",
    "Gap",
    "Result",
    "Root",
    "Rounding",
    "Times",
    "UntriedWarning",
    "assert_same_function",
    "assert_same_program",
    "in_turns",
    "same_function",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'maxview_probe' has no attribute {name!r}")
    return getattr(importlib.import_module("maxview_probe.library.api"), name)
