"""The distributions of the verdict rules. SciPy is imported at the first call: dead runs are compared without it.

Arguments may be arrays; then so are the results.
"""

from typing import Any


def student_below(degrees: Any, x: Any) -> Any:
    """Return the probability that Student's t with `degrees` of freedom is below x."""
    from scipy.special import stdtr  # type: ignore[import-untyped]  # its stubs are a package of their own

    return stdtr(degrees, x)


def student_quantile(degrees: Any, probability: Any) -> Any:
    """Return the value that Student's t with `degrees` of freedom is below with this probability."""
    from scipy.special import stdtrit

    return stdtrit(degrees, probability)


def normal_quantile(probability: Any) -> Any:
    """Return the value that a standard normal variable is below with this probability."""
    from scipy.special import ndtri

    return ndtri(probability)


def normal_below(x: Any) -> Any:
    """Return the probability that a standard normal variable is below x."""
    from scipy.special import ndtr

    return ndtr(x)


def chi_squared_below(degrees: Any, probability: Any) -> Any:
    """Return the value that chi-squared with `degrees` of freedom is below with this probability."""
    from scipy.special import gammaincinv

    return 2 * gammaincinv(degrees / 2, probability)


def f_above(degrees: Any, other: Any, probability: Any) -> Any:
    """Return the value that F with `degrees` and `other` degrees of freedom exceeds with this probability."""
    from scipy.special import fdtri

    return fdtri(degrees, other, 1 - probability)


def log_gamma(x: Any) -> Any:
    """Return the logarithm of the gamma function of x."""
    from scipy.special import gammaln

    return gammaln(x)
