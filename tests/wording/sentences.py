"""The sentences that tests make, in one file per surface; `python -m tests.wording.surfaces` renews them.

A test asserts codes, fields, numbers and names, and gives the sentence to the fixture `wording`, which compares it with
the file of its surface. An entry of such a file is the name of a test, and below it its sentences in order. Tests of
other parameters that make the same sentences share them.
"""

import os
import re
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Protocol

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
# file → its sentences
SURFACES = {
    "errors": "errors of input and of this machine",
    "findings": "findings of a comparison, and causes of death",
    "log": "lines that maxview writes into a run's log",
    "next_steps": "what to do next",
    "parts": "sentences within reports and pages",
    "reasons": "headlines, and reasons of rows and checks",
}
RENEW = "uv run --group dev python -m tests.wording.surfaces"
RENEWING = "MAXVIEW_RENEW_WORDING"

CHANGING = re.compile(r"\b([0-9a-f]{40}|[0-9a-f]{32})\b")  # commits of tests' repositories, folders in their bucket

type Entries = dict[str, list[str]]  # a test's name, without its parameters if all make the same → its sentences
MADE = pytest.StashKey[dict[str, Entries]]()  # a test's name → surface → its sentences
PASSED = pytest.StashKey[bool]()


class Wording(Protocol):
    """wording(surface, text, NAME=value): the text, with each value as its name, is the next sentence of this test."""

    def __call__(self, surface: str, text: object, **names: object) -> None: ...


def function_of(name: str) -> str:
    """Return the name of a test without its parameters."""
    return name.partition("[")[0]


@cache
def read_entries(surface: str) -> Entries:
    """Return the entries of a surface's file; none if it does not exist."""
    path = FOLDER / f"{surface}.txt"
    entries: Entries = {}
    sentences: list[str] = []
    for line in path.read_text(encoding="utf-8").split("\n") if path.is_file() else ():
        if line.startswith("  - "):
            sentences.append(line[4:])
        elif line.startswith("    "):
            sentences[-1] += "\n" + line[4:]
        elif line:
            sentences = entries[line] = [] if sentences else sentences
    return entries


def find_sentences(surface: str, name: str) -> list[str]:
    """Return the sentences of a test in a surface's file."""
    entries = read_entries(surface)
    return entries.get(name, entries.get(function_of(name), []))


def write_entries(surface: str, entries: Entries) -> None:
    """Write a surface's file; tests that make the same sentences one after the other share them."""
    lines: list[str] = []
    functions = dict.fromkeys(map(function_of, sorted(entries)))
    for function in functions:
        shared: dict[tuple[str, ...], list[str]] = {}
        for name in sorted(entries):
            if function_of(name) == function:
                shared.setdefault(tuple(entries[name]), []).append(name)
        for sentences, names in shared.items():
            lines += [*names, *("  - " + text.replace("\n", "\n    ") for text in sentences)]
    (FOLDER / f"{surface}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def line_with(text: str, part: str) -> str:
    """Return the only line of a text that contains a part."""
    (line,) = [line for line in text.splitlines() if part in line]
    return line


def exists(name: str) -> bool:
    """Return whether the test of an entry exists and uses the fixture."""
    file, _, test = name.partition("::")
    path = ROOT / file
    uses = re.compile(rf"^def {re.escape(function_of(test))}\([^)]*\bwording: Wording\b", re.MULTILINE)
    return path.is_file() and uses.search(path.read_text(encoding="utf-8")) is not None


@pytest.fixture
def wording(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wording]:
    """Compare a sentence with the file of its surface. There folders of this machine are ROOT and TMP."""
    name = f"{request.node.path.relative_to(ROOT).as_posix()}::{request.node.name}"
    folder = re.compile(rf"{re.escape(str(tmp_path_factory.getbasetemp()))}/[\w-]+")
    made: Entries = {}

    def check(surface: str, text: object, **names: object) -> None:
        assert surface in SURFACES
        shown = str(text)
        for placeholder, value in names.items():
            shown = shown.replace(str(value), placeholder)
        shown = folder.sub("TMP", shown).replace(str(ROOT), "ROOT")
        shown = CHANGING.sub("ID", shown)
        shown = "\n".join(line.rstrip() for line in shown.strip("\n").split("\n"))
        sentences = made.setdefault(surface, [])
        sentences.append(shown)
        if RENEWING not in os.environ:
            expected = find_sentences(surface, name)[: len(sentences)]
            assert sentences == expected, f"read the difference, then type: {RENEW}"

    yield check
    if RENEWING in os.environ:
        request.config.stash.setdefault(MADE, {})[name] = made
    elif request.node.stash.get(PASSED, False):
        for surface in SURFACES:
            left = find_sentences(surface, name)[len(made.get(surface, ())) :]
            assert not left, f"{surface}.txt: the test does not make these: {left}; type: {RENEW}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note whether the test passed, for the fixture's end."""
    report = yield
    if report.when == "call":
        item.stash[PASSED] = report.passed
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """If asked to, write the sentences of the tests that ran, and drop the entries of tests that are gone."""
    if RENEWING not in os.environ:
        return
    made = session.config.stash.get(MADE, {})
    ran = set(map(function_of, made))
    for surface in SURFACES:
        entries = {name: own[surface] for name, own in made.items() if surface in own}
        for function in ran:
            own = [own.get(surface, []) for name, own in made.items() if function_of(name) == function]
            if len(own) > 1 and own[0] and all(sentences == own[0] for sentences in own):
                entries = {name: texts for name, texts in entries.items() if function_of(name) != function}
                entries[function] = own[0]
        kept = {name: texts for name, texts in read_entries(surface).items() if function_of(name) not in ran}
        write_entries(surface, {name: texts for name, texts in kept.items() if exists(name)} | entries)
