"""The recorder in trainers whose step is several functions: the cycle that it finds and writes as one function."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.probe.observe.test_loop_functions import PLAIN, record

GRADIENTS = "value, g = gradients_of(params, x)"
UPDATE = "params, opt_state = jitted_update(params, opt_state, g)"


@pytest.mark.parametrize(
    ("loop", "functions", "period"),
    [
        (PLAIN, ["train_step"], 1),
        # an evaluation is named, and is no part of the cycle
        (f"{PLAIN}; held = evaluate(params, x); mean = average(mean, params)", ["train_step", "<lambda>"], 1),
        (f"{GRADIENTS}; {UPDATE}", ["loss", "update"], 1),
        (f"{GRADIENTS}; total = g if n % 2 == 0 else jax.tree.map(jnp.add, total, g); "
         "params, opt_state = jitted_update(params, opt_state, total) if n % 2 else (params, opt_state)",
         ["loss", "update"], 2),
    ],
)  # fmt: skip
def test_the_functions_that_turn_the_state_into_the_next_are_one_cycle(
    tmp_path: Path, loop: str, functions: list[str], period: int
) -> None:
    found = record(tmp_path, loop, {"range(8)": "range(14)"})["cycle"]
    assert (found["problem"], list(found["functions"]), found["period"]) == ("", functions, period)
    assert found["gaps"] == []
    assert (tmp_path / "observed" / "cycle").exists() == (len(functions) > 1)


def test_an_eager_optimizer_is_part_of_the_cycle_and_its_state_keeps_its_names(tmp_path: Path) -> None:
    found = record(
        tmp_path, f"{GRADIENTS}; params, opt_state = update(params, opt_state, g)", {"range(8)": "range(14)"}
    )
    assert found["cycle"]["problem"] == ""
    assert found["cycle"]["eager"] > 20  # a product, a root and a sum at least for each of two moments of two weights
    names = [key.partition("|")[2] for key in np.load(tmp_path / "observed" / "cycle" / "arguments.npz")]
    for moment in ("mu", "nu"):
        for weight in ("w1", "w2"):
            assert any(f".{moment}['params']['{weight}']" in name for name in names)
    (x,) = (name for name in names if name == "x")
    step = json.loads((tmp_path / "observed" / "cycle" / "observation.json").read_text())
    fed = [name for name, feed in zip(names, step["feeds"], strict=True) if feed is not None]
    assert x not in fed
    assert len(fed) >= 7  # two weights, two moments of each, and a count


@pytest.mark.parametrize(
    ("loop", "why"),
    [
        # NumPy computes the weights
        (f"{GRADIENTS}; {UPDATE}; params = jax.tree.map(lambda one: 0.999 * np.asarray(one), params)", "gaps"),
        # a further function from the fourth step on
        (f"{GRADIENTS}; {UPDATE}; params = average(params, mean) if n > 2 else params", "problem"),
    ],
)
def test_a_loop_that_the_host_changes_is_named(tmp_path: Path, loop: str, why: str) -> None:
    more = {"range(8)": "range(14)", "import functools, sys": "import functools, sys\nimport numpy as np"}
    found: dict[str, Any] = record(tmp_path, loop, more)["cycle"]
    assert found[why]


def test_a_trip_to_the_host_and_back_changes_nothing(tmp_path: Path) -> None:
    more = {"range(8)": "range(14)", "import functools, sys": "import functools, sys\nimport numpy as np"}
    loop = f"{GRADIENTS}; {UPDATE}; params = jax.tree.map(np.asarray, params)"
    found = record(tmp_path, loop, more)["cycle"]
    assert (found["gaps"], found["problem"], list(found["functions"])) == ([], "", ["loss", "update"])
