"""The log files of a node, in the format of containerd and CRI-O."""

from typing import Any

import pytest

from tasks.scrape import scrape_text
from tasks.scrape.wrappings.lines import written_lines


def entry(text: str, tag: str = "F", stream: str = "stdout", second: int = 0) -> str:
    """A line of such a file."""
    return f"2026-04-18T00:00:{second % 60:02d}.123456789+02:00 {stream} {tag} {text}\n"


def test_lines_of_a_container_runtime(logs: Any) -> None:
    text = logs.framed(*logs.steps(5))
    data = "".join(entry(line, second=n) for n, line in enumerate(text.decode().splitlines())).encode()
    run = scrape_text(data, name="x").runs[0]
    assert run.coverage.unwrapped == ("container runtime's prefixes",)
    assert run.steps.equals(scrape_text(text, name="x").runs[0].steps)


@pytest.mark.parametrize("width", [7, 40, 500])
def test_the_parts_of_a_long_line(logs: Any, width: int) -> None:
    """A log without line breaks is split every so many bytes, also inside numbers; another stream writes in between."""
    text = logs.framed(*logs.steps(5)).replace(b"\n", b" ").decode()
    parts = [text[begin : begin + width] for begin in range(0, len(text), width)]
    between = entry("a warning", stream="stderr") + entry("half of ", "P", "stderr")
    data = between.join(entry(part, "P") for part in parts) + entry("") + entry("another", stream="stderr")
    expected = scrape_text(text.encode(), name="x").runs[0]
    run = scrape_text(data.encode(), name="x").runs[0]
    assert run.steps["step"].to_list() == [0, 1, 2, 3, 4]
    assert run.steps["loss"].to_list() == expected.steps["loss"].to_list()


def test_other_lines_stay_and_unfinished_lines_are_yielded() -> None:
    lines = entry("a", "P") + "no entry\n" + entry("b") + entry("c", "P") + entry("", "F", "stderr")
    assert b"".join(written_lines([lines.encode()])) == b"no entry\nab\n\nc\n"
    assert b"".join(written_lines([entry("x").encode(), entry("y").encode().rstrip(b"\n")])) == b"x\ny"
