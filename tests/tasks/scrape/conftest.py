"""Makes, damages and judges logs, for the tests of the readers."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def fuzzing() -> Iterator[Any]:
    """The module that makes and judges the logs; `tests/soak/fuzz_scrape.py` uses it too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[3]))
        yield importlib.import_module("tests.fuzzing.logs")


@pytest.fixture(scope="module")
def torn_rows() -> Iterator[Any]:
    """The module that tears single rows of the sample logs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[3]))
        yield importlib.import_module("tests.fuzzing.torn_rows")
