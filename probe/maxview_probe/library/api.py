"""The functions that people call; see `maxview_probe`."""

import warnings
from collections.abc import Callable
from typing import Any

from maxview_probe.library.compare import compare, program_of, trace_both
from maxview_probe.library.errors import CannotCompare, UntriedWarning, name_functions
from maxview_probe.library.in_turns import Times, in_turns
from maxview_probe.library.result import Gap, Result, Root, Rounding

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


def same_function(old: Callable[..., Any], new: Callable[..., Any], *args: Any, grad: bool = False) -> Result:
    """Return whether two functions compute the same, beside rounding.

    Both are evaluated in float64 on processors: at `args`, and at arguments of the same kinds that are drawn, scaled,
    tied and zero, until both sides of each condition were taken that only one of them has.

    old, new: functions that JAX can trace, also jitted ones. args: of both; pytrees of arrays. A
    `jax.ShapeDtypeStruct` stands for drawn values of its shape. Numbers of Python are constants.
    grad: compare the gradients with respect to all arrays of floats, too.
    Raises CannotCompare with a sentence, for example if a function calls Python back or has no float64 form.
    """
    __tracebackhide__ = True
    return compare(old, new, args, grad=grad)


def assert_same_function(old: Callable[..., Any], new: Callable[..., Any], *args: Any, grad: bool = False) -> None:
    """Raise AssertionError, with the line where they begin to differ, unless `same_function` returns *same*.

    Warns with UntriedWarning if a condition of only one of the functions went one way at all arguments.
    """
    __tracebackhide__ = True
    check(compare(old, new, args, grad=grad))


def check(result: Result) -> None:
    """Raise AssertionError unless a result is *same*; warn of what was not tried."""
    __tracebackhide__ = True
    if not result.same:
        _, *details = str(result).splitlines()
        raise AssertionError("\n".join([result.explain(), *details]))
    if result.untried:
        shown = ", ".join(result.untried[:4])
        warnings.warn(f"same, but not tried: {shown}", UntriedWarning, stacklevel=3)


def assert_same_program(old: Callable[..., Any], new: Callable[..., Any], *args: Any, grad: bool = False) -> None:
    """Raise AssertionError unless both functions lower to one program for processors, beside names and source lines.

    Equal programs have equal bits and equal times. Arguments and errors are those of `same_function`.
    """
    __tracebackhide__ = True
    names = name_functions(old, new)
    traced, _, _ = trace_both(old, new, args, names, grad=grad)
    texts = [program_of(one.text).splitlines() for one in traced]
    if texts[0] == texts[1]:
        return
    pairs = zip(*([*lines, ""] for lines in texts), strict=False)
    first = next(((a, b) for a, b in pairs if a != b), ("", ""))
    sizes = " and ".join(f"{len(lines)} lines ({name})" for lines, name in zip(texts, names, strict=True))
    shown = "".join(f"\n  {name}: {line.strip()[:160]}" for name, line in zip(names, first, strict=True))
    raise AssertionError(f"the programs differ: {sizes}; first{shown}")
