"""Takes a saved MaxView page apart: its table as printed, and where in it each arm's log stands."""

import re
from itertools import pairwise
from typing import Any

from configs.schema import Frozen
from tasks.scrape.dialects import recognise
from tasks.scrape.window import LogFormatError

HEAD_BYTES = 16 << 10  # the table stands within these
_GAP = r"[\s\u00a0]"
_TITLES = (
    # a page copied from the browser: `Metrics: Linen vs NNX  ·  main`, the commits in the table's head, or of two
    # branches: `Metrics: main (574ad3fb9) vs feat/x (e27fc1e97)`
    re.compile(
        rf"Metrics:{_GAP}+(?P<a>\S[^\n]*?){_GAP}+vs{_GAP}+(?P<b>[^\n]*?)(?:{_GAP}+·{_GAP}+(?P<branch>\S+))?\s*$", re.M
    ),
    # the page of two branches: `main (574ad3fb9) vs feat/x (574ad3fb9)| Metric | …`
    re.compile(r"^(?P<a>\S+) \((?P<ca>[0-9a-f]{6,40})\) vs (?P<b>\S+) \((?P<cb>[0-9a-f]{6,40})\)", re.M),
)  # fmt: skip
_BRANCH = re.compile(rf"(\S+){_GAP}+\(([0-9a-f]{{6,40}})\)")
_CASE = re.compile(r"^‹\s*(?P<previous>\w*?)Case:\s*(?P<case>\d\d_\w+?)(?P<next>\d\d_\w+)?\s*›\s*$", re.M)
# `…/linen_xpk_main_20260418_180002_03_dropout/checkpoints`: a page without a headline still has its case in the paths
_CASE_OF_PATH = re.compile(rb"/[\w.-]*?_(\d\d_[a-z]\w*)/checkpoints\b")
_METRICS = ("Parameters", "Final loss", "TFLOP/s", "Tok/s", "Avg s/step", "Memory %", "JAX")
_PIPE_ROW = re.compile(r"^\|\s*([^|\n]+?)\s*\|\s*([^|\n]*?)\s*\|\s*([^|\n]*?)\s*\|\s*([^|\n]*?)\s*\|\s*$", re.M)
_FULL_LOG = re.compile(
    rb"(?:^(?P<name>[^\n\xc2]{1,80}?)(?:\s|\xc2\xa0)+\xc2\xb7(?:\s|\xc2\xa0)+)?(?P<commit>\b[0-9a-f]{7,40})"
    rb"(?:\s|\xc2\xa0)+\xc2\xb7(?:\s|\xc2\xa0)+(?P<run>\S+)(?:\s|\xc2\xa0)+\xc2\xb7(?:\s|\xc2\xa0)+full log[ \t\r]*\n?",
    re.M,
)
_LOG_START = re.compile(rb"XPK Start: ")


class PageLog(Frozen):
    """One arm's log on a page: how the page calls it, and its byte range."""

    name: str
    branch: str | None
    commit: str | None
    span: tuple[int, int]


class Page(Frozen):
    """A page: its logs, and `facts` as they go into `LogReading.page`."""

    logs: tuple[PageLog, ...]
    facts: dict[str, Any]


def is_page(data: bytes) -> bool:
    """Whether a text begins like a saved MaxView page."""
    head = data[:HEAD_BYTES].decode("utf-8", "replace")
    return "Metric" in head and "Diff (" in head and any(title.search(head) for title in _TITLES)


def read_page(data: bytes, name: str) -> Page:
    """The page's table and logs. Raises LogFormatError if an arm has no log."""
    head = data[:HEAD_BYTES].decode("utf-8", "replace")
    title = next(match for pattern in _TITLES if (match := pattern.search(head)))
    groups = title.groupdict()
    arms = [groups["a"].strip(), groups["b"].strip()]
    commits = [groups.get("ca"), groups.get("cb")]
    branch = groups.get("branch")
    branches: list[str | None] = [branch, branch]
    named = [_BRANCH.fullmatch(arm) for arm in arms]
    if all(named):
        arms, commits = ([match[group] for match in named if match] for group in (1, 2))
    if commits[0]:  # the title names two branches
        branches = list(arms)
    in_table = _commits_in_table(head, arms)
    logs = [
        log if log.commit else log.model_copy(update={"commit": in_table[arms.index(log.name)]})
        for log in _find_logs(data, arms, commits, branches)
    ]
    missing = [arm for arm in arms if arm not in {log.name for log in logs}]
    if missing:
        there = " and ".join(log.name for log in logs)
        lacking = f"has a log for {there} but none for {missing[0]}" if logs else f"has no log of {' or '.join(arms)}"
        raise LogFormatError(
            f"{name}: the page {lacking}; open both logs on the page and save it again, or give the two logs as files "
            "(maxview ingest BASELINE.log CANDIDATE.log)"
        )
    case = _CASE.search(head)
    cases = {match[1].decode() for match in _CASE_OF_PATH.finditer(data)}
    facts: dict[str, Any] = {
        "title": " ".join(title[0].split()),
        "case": case["case"] if case else cases.pop() if len(cases) == 1 else None,
        "previous_case": (case["previous"] or None) if case else None,
        "next_case": case["next"] if case else None,
        "arms": [log.model_dump(exclude={"span"}) for log in logs],
        "rows": _read_rows(head),
    }
    return Page(logs=tuple(logs), facts=facts)


def _commits_in_table(head: str, arms: list[str]) -> list[str | None]:
    """The commits in the table's head, whose cells have lost their borders: `MetricLinen  29bbe47edNNX  29bbe47edDiff`.

    A commit goes up to the other arm's name, which may begin with letters that commits have.
    """
    first, second = (re.escape(arm) for arm in arms)
    shas = rf"{_GAP}+([0-9a-f]{{6,40}}?)"
    found = re.search(rf"^Metric{first}{shas}{second}{shas}Diff \(", head, re.M)
    return list(found.groups()) if found else [None, None]


def _find_logs(data: bytes, arms: list[str], commits: list[str | None], branches: list[str | None]) -> list[PageLog]:
    """The logs that are there, each given to its arm: by the name in its head, else by its paths."""
    heads = list(_FULL_LOG.finditer(data))
    marks = sorted({*(head.start() for head in heads), *_starts_without_head(data, heads)})
    by_start = {head.start(): head for head in heads}
    logs: dict[int, PageLog] = {}
    sections = list(pairwise([*marks, len(data)]))
    for begin, end in sections:
        head = by_start.get(begin)
        body = head.end() if head else begin
        if recognise(data[body:end]) is None:
            continue
        shown = head["name"].decode("utf-8", "replace").strip() if head and head["name"] else ""
        arm = arms.index(shown) if shown in arms else _arm_of(data[begin:end], arms, logs, len(sections))
        if arm is None or arm in logs:
            continue
        commit = commits[arm] or (head["commit"].decode() if head else None)
        logs[arm] = PageLog(name=arms[arm], branch=branches[arm], commit=commit, span=(body, end))
    return [logs[arm] for arm in sorted(logs)]


def _starts_without_head(data: bytes, heads: list[re.Match[bytes]]) -> list[int]:
    """Where a log starts that has no head right before it."""
    ends = {head.end() for head in heads}
    return [m.start() for m in _LOG_START.finditer(data) if not any(0 <= m.start() - end <= 2 for end in ends)]


def _arm_of(section: bytes, arms: list[str], taken: dict[int, PageLog], sections: int) -> int | None:
    """The arm of a log without a name: with two logs by order, else the one whose name its paths carry."""
    free = [arm for arm in range(len(arms)) if arm not in taken]
    if sections >= len(arms):
        return free[0] if free else None
    squeezed = re.sub(rb"[^a-z0-9]+", b"_", section.lower())
    named = [arm for arm in free if re.sub(r"[^a-z0-9]+", "_", arms[arm].lower()).encode() in squeezed]
    longest = sorted(named, key=lambda arm: -len(arms[arm]))
    return (longest or free)[0]


def _read_rows(head: str) -> list[dict[str, Any]]:
    """The table's rows. A page copied as text has lost the borders of its cells: then only `text` is sure."""
    piped = [match.groups() for match in _PIPE_ROW.finditer(head) if match[1] in _METRICS]
    if piped:
        return [
            {"metric": metric, "text": f"{a} | {b} | {diff}", "cells": [a, b, diff]} for metric, a, b, diff in piped
        ]
    rows = []
    for metric in _METRICS:
        match = re.search(rf"^{re.escape(metric)}(\S.*)?$", head, re.M)
        if match:
            rows.append({"metric": metric, "text": (match[1] or "").strip(), "cells": None})
    return rows
