"""Writes the record of invariants and its page (twins × cases), and finds since which version a twin is broken."""

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from configs.comparison import load_comparison
from configs.names import list_names
from questions.invariants.describe_invariants import show_matrix_cell
from questions.invariants.twin_records import MARKS, InvariantsRecord, TwinResult
from tasks.publish.content.templating import load_assets, make_environment
from tasks.publish.site.index_page import add_invariants, link_home, update_index
from tasks.records.function import show_relative
from tasks.store.atomic import write_atomically
from tasks.store.names import check_name
from tasks.store.store import Store

HERE = Path(__file__).parent  # with the page's template
COMPARES_COMMITS = "main-vs-branch"  # ends the names of comparisons of two commits
MAX_CASES = 4  # in a line
FOLDER, RECORD = "invariants", "invariants.json"
WORDS = {"same": "same", "another": "regressed", "not evaluated": "unknown", "not applicable": ""}


def publish_invariants(record: InvariantsRecord, store: Store) -> tuple[InvariantsRecord, Path]:
    """Write the record and its page into the store; return the record with its history, and the page's path.

    A version's record is replaced by a later one of the same twins and cases.
    """
    breaks = find_breaks(record, read_matrices(store, record.trainer))
    found = {"broke": {key: one.first for key, one in breaks.items()}}
    record = record.replace(**(found | ({"next": words} if (words := bisect_words(record, breaks)) else {})))
    folder = place_record(record, store)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / RECORD, json.dumps(json.loads(record.model_dump_json()), indent=1))
    rows = [[one for one in record.results if one.twin == twin] for twin in record.twins]
    twins = [(own[0], {one.case: one for one in own}, _largest(own)) for own in rows if not _is_unfit(own)]
    html = (
        make_environment(HERE, show_cell=show_matrix_cell, show_relative=show_relative, words=WORDS, marks=MARKS)
        .get_template("invariants.html.j2")
        .render(
            record=record,
            sign={0: "✓", 1: "✗", 3: "–"}[record.exit_status],
            twins=twins,
            unfit=[*_group_unfit(rows)],
            **load_assets("site.js", styles=("page.css", "bisect.css")),
            home=link_home(store, depth=3),
        )
    )
    page = write_atomically(folder / "index.html", html)
    store.push(folder)
    update_index(store, add_invariants(page.relative_to(store.path).as_posix()))
    return record, page


def place_record(record: InvariantsRecord, store: Store) -> Path:
    """Return the folder of a record and its page in the store."""
    place = f"{record.commit[:12]}-{record.id}" if record.commit else record.id
    return store.path.joinpath(FOLDER, check_name(record.trainer, "trainer"), check_name(place, "id"))


def _is_unfit(results: Sequence[TwinResult]) -> bool:
    return all(one.answer == "not applicable" for one in results)


def _group_unfit(rows: Sequence[Sequence[TwinResult]]) -> Iterator[tuple[str, str, str]]:
    """Yield title, reason and cases of twins that do not apply; no cases: they apply in none."""
    for own in rows:
        reasons: dict[str, list[str]] = {}
        for one in own:
            if one.answer == "not applicable":
                reasons.setdefault(one.sentence, []).append(one.case)
        for why, cases in reasons.items():
            names = ", ".join(cases) if len(cases) <= MAX_CASES else f"{len(cases)} cases"
            yield own[0].title, why, names if len(cases) < len(own) else ""


def _largest(results: list[TwinResult]) -> str:
    found = [one.gap or 0.0 for one in results if one.answer == "same"]
    return f"{max(found):.0e}" if any(found) else "0" if found else ""


def read_matrices(store: Store, trainer: str) -> list[InvariantsRecord]:
    """Return the stored records of a trainer, the oldest first. A damaged file is left out."""
    found = []
    for path in store.path.joinpath(FOLDER, trainer).glob(f"*/{RECORD}"):
        try:
            found.append(InvariantsRecord.model_validate_json(path.read_bytes()))
        except (OSError, ValueError):
            continue
    return sorted(found, key=lambda one: one.created)


class Break(NamedTuple):
    """When a twin broke in a case."""

    first: str  # the first version at which it was broken without holding again since
    held: str | None  # the commit at which it held before
    digests: tuple[str, ...]  # of both sides there


def find_breaks(record: InvariantsRecord, past: list[InvariantsRecord]) -> dict[str, Break]:
    """Return "twin case" → when it broke, for twins that held before."""
    return dict(_find_breaks(record, past))


def _find_breaks(record: InvariantsRecord, past: list[InvariantsRecord]) -> Iterator[tuple[str, Break]]:
    for one in record.having("another"):
        first = record.version
        for before in reversed([old for old in past if old.created <= record.created]):
            same = (old for old in before.results if (old.twin, old.case) == (one.twin, one.case))
            if (old := next(same, None)) is None:
                continue
            if old.answer == "same":
                yield f"{one.twin} {one.case}", Break(first, before.commit, old.digests)
                break
            if old.answer == "another":
                first = before.version


def bisect_words(record: InvariantsRecord, breaks: dict[str, Break]) -> str:
    """Return the command that finds the commit at which a twin broke; "" if there is none.

    It compares the step of the side that computes other results than before, with its settings.
    """
    held, case, settings = next(_find_changed(record, breaks), (None, "", ()))
    if held is None:
        return ""
    comparisons = (name for name in list_names("comparisons") if name.endswith(COMPARES_COMMITS))
    comparison = next((name for name in comparisons if load_comparison(name).trainer == record.trainer), None)
    if comparison is None:
        return ""
    words = ["maxview", "bisect", comparison, "--metric", "function", "--case", case, "--good", held[:12]]
    words += ["--bad", record.commit[:12]] if record.commit else []
    return shlex.join([*words, *(word for setting in settings for word in ("--set", setting))])


def _find_changed(record: InvariantsRecord, breaks: dict[str, Break]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield for each broken twin the commit at which it held, its case, and the settings of the side that changed."""
    for one in record.having("another"):
        broke = breaks.get(f"{one.twin} {one.case}")
        if broke is None or broke.held is None or broke.held == record.commit:
            continue
        changed = [now != old for now, old in zip(one.digests, broke.digests, strict=False)]
        side = 0 if changed == [True, False] else 1
        if (settings := one.settings[side]) is not None:
            yield broke.held, one.case, settings
