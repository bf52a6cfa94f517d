"""A pytest plugin: the fixture `same_function`, the marker `maxview`, and `--maxview-report FILE`.

The fixture is called as `maxview_probe.assert_same_function` is. Tests that use it have the marker: `pytest -m maxview`
runs them alone. The report is a JSON list with an object for each comparison: the test and the fields of `Result`.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

FIXTURE, MARKER, OPTION = "same_function", "maxview", "--maxview-report"
COMPARED = "maxview"  # name of a test's property with its comparisons; properties reach the main process of xdist
_running: list[pytest.Item] = []  # the test that runs


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("maxview").addoption(
        OPTION, metavar="FILE", type=Path, help="write what `same_function` compared into FILE, as JSON"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Add the marker; collect the report where tests are counted, not where xdist runs them."""
    config.addinivalue_line("markers", f"{MARKER}: compares two functions in float64 (added to all that use {FIXTURE})")
    if config.getoption(OPTION) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Report(config.getoption(OPTION)), "maxview-report")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test that uses the fixture."""
    if FIXTURE in getattr(item, "fixturenames", ()):
        item.add_marker(MARKER)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember the test, for its comparisons."""
    _running[:] = [item]


@pytest.fixture(scope="session")  # of no test, so that hypothesis may call a test many times with it
def same_function() -> Callable[..., None]:
    """Assert that two functions compute the same: `same_function(old, new, *args, grad=False)`."""
    from maxview_probe.library.api import check
    from maxview_probe.library.compare import compare

    def assert_same(old: Callable[..., Any], new: Callable[..., Any], *args: Any, grad: bool = False) -> None:
        __tracebackhide__ = True
        found = compare(old, new, args, grad=grad)
        for item in _running:
            item.user_properties.append((COMPARED, json.dumps(asdict(found) | {"lines": str(found).splitlines()})))
        check(found)

    return assert_same


class _Report:
    """Writes the comparisons of all tests."""

    def __init__(self, path: Path):
        self.path = path
        self.found: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the comparisons of a test."""
        if report.when == "call":
            compared = [text for name, text in report.user_properties if name == COMPARED]
            self.found += [{"test": report.nodeid, **json.loads(str(text))} for text in compared]

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        self.path.write_text(json.dumps(self.found, indent=1) + "\n", encoding="utf-8")
