"""The picture of a pipeline schedule: cells at the events, hatching for transfers in flight, and a description in
words.
"""

import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tasks.publish.content.draw_schedule import assign_lanes, draw_schedule, find_operations
from tasks.records import RunReading
from tasks.scrape import scrape, scrape_text
from tests.wording.sentences import Wording

ROW = " iteration 1/ 20 | consumed samples: 16 | elapsed time per iteration (ms): 4493.2 |"
SVG = "{http://www.w3.org/2000/svg}"


def read(*events: str) -> RunReading:
    """The reading of a log with these events: `0 forward start 3` and so on, or a row."""
    lines = [each if "iteration" in each else "rank {} {} {} tensor {}".format(*each.split()) for each in events]
    return scrape_text("".join(f"{line}\n" for line in (*lines, ROW)).encode(), name="<a & b>").runs[0]


def test_operations_are_pairs_of_start_and_finish() -> None:
    run = read("0 forward start 0", "0 forward start 1", "0 forward finished 0", "1 backward finished 9",
               "0 forward finished 1", "0 backward start 0")  # fmt: skip
    found = find_operations(run.schedule)
    assert [(each.rank, each.direction, each.tensor, each.start, each.end) for each in found] == [
        (1, "backward", 9, -1, 3), (0, "forward", 0, 0, 2), (0, "forward", 1, 1, 4), (0, "backward", 0, 5, None),
    ]  # fmt: skip
    # two simultaneous operations are drawn below each other
    assert [assign_lanes(found)[each] for each in found] == [0, 0, 1, 0]


def test_the_picture(wording: Wording) -> None:
    run = read("0 forward start 0", "0 forward finished 0", ROW, "0 backward start 0")
    svg = draw_schedule(run)
    assert svg is not None
    root = ElementTree.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert root.findtext(f"{SVG}title") == "Pipeline schedule of <a & b>"
    description = root.findtext(f"{SVG}desc") or ""
    assert "in flight at the end: backward 0 on rank 0" in description
    assert "no times" in description
    cells = {group.findtext(f"{SVG}title"): group.find(f"{SVG}rect") for group in root.iter(f"{SVG}g")}
    drawn = {title: rect.attrib["class"] for title, rect in cells.items() if title and rect is not None}
    assert list(drawn.values()) == ["forward", "backward flying"]
    finished, flying = drawn
    assert re.findall(r"\d+", finished) == ["0", "0", "1", "2"]  # rank, microbatch, first and last line
    assert re.findall(r"\d+", flying) == ["0", "0", "4"]
    for title in drawn:
        wording("parts", title)
    assert "iteration 1 printed" in svg
    assert "prefers-color-scheme: dark" in svg


def test_a_long_schedule_shows_its_end() -> None:
    events = [f"0 forward {event} {n % 9}" for n in range(1500) for event in ("start", "finished")]
    svg = draw_schedule(read(*events))
    assert svg is not None
    assert "the 1,000 before them are not drawn" in svg


def test_without_events_there_is_no_picture() -> None:
    assert draw_schedule(scrape_text(f"{ROW}\n".encode(), name="x").runs[0]) is None


def test_seed() -> None:
    folder = os.environ.get("MAXVIEW_SEEDS")
    if not folder:
        pytest.skip("MAXVIEW_SEEDS does not name the folder of the founding documents")
    run = scrape(Path(folder) / "004_662ed16e02b2db79.txt").runs[0]
    found = find_operations(run.schedule)
    # EXPECTED.md: rank 6 forward 61 / 60, backward 36 / 36; rank 7 61 / 60, 37 / 37
    for rank, direction, started, finished in [
        (6, "forward", 61, 60), (6, "backward", 36, 36), (7, "forward", 61, 60), (7, "backward", 37, 37),
    ]:  # fmt: skip
        own = [each for each in found if (each.rank, each.direction) == (rank, direction)]
        assert (len(own), sum(each.end is not None for each in own)) == (started, finished)
    svg = draw_schedule(run)
    assert svg is not None
    assert ": forward 28 on rank 6, forward 28 on rank 7" in svg
