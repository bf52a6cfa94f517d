"""The script for accelerators, small, on a processor; results as a notebook draws them."""

from xml.etree import ElementTree as xml

import jax.numpy as jnp
import numpy as np
import pytest

import maxview_probe as mv
from maxview_probe import accelerator

pytestmark = pytest.mark.long


def test_rewrites_are_the_same_and_planted_errors_are_found() -> None:
    rows = list(accelerator.rows_of_functions(small=True))
    assert [row.right for row in rows] == [True] * 5 + [None], rows
    assert sum(row.wanted == "another function" for row in rows) == 3


def test_the_distance_is_that_of_the_definition() -> None:
    x = np.linspace(0.5, 2, 8, dtype=np.float32)
    exact = accelerator.in_float64(lambda a: jnp.exp(a), x)
    assert exact.dtype == np.float64
    np.testing.assert_allclose(exact, np.exp(x.astype(np.float64)), rtol=1e-15)
    assert accelerator.distance(exact * 1.5, exact) == pytest.approx(0.5)


def test_a_result_is_drawn_in_a_notebook() -> None:
    x = jnp.arange(1.0, 5.0)
    page = mv.same_function(lambda a: {"<b>": a}, lambda a: {"<b>": a * 1.01}, x)._repr_html_()
    body = xml.fromstring(f"<div>{page}</div>")  # well formed, and names are escaped
    assert "another function" in "".join(body.itertext())
    assert "['<b>']" in "".join(body.itertext())
    assert "another function" not in mv.same_function(jnp.sin, jnp.sin, x)._repr_html_()
