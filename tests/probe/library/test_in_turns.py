"""Two functions in turns: twice the work takes longer, and the result reads as a difference with its interval."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxview_probe as mv

pytestmark = pytest.mark.flows


def test_more_work_takes_longer() -> None:
    x = np.random.default_rng(0).standard_normal((96, 96)).astype(np.float32)

    def times(n: int) -> object:
        return lambda x: jax.lax.fori_loop(0, n, lambda _, y: jnp.tanh(y @ x), x)

    found = mv.in_turns(times(4), times(64), x, seconds=2)  # type: ignore[arg-type]
    assert found.difference > 1.0  # 15 on an idle machine
    assert str(found).startswith(f"+{100 * found.difference:.1f} % (")
    assert found.low < found.difference < found.high
    assert found.decided == (found.low > 0)


def test_a_function_that_calls_python_has_a_sentence() -> None:
    with pytest.raises(mv.CannotCompare, match="calls Python"):
        mv.in_turns(lambda x: x, lambda x: jax.pure_callback(np.sin, x, x), np.ones(3, np.float32), seconds=1)
