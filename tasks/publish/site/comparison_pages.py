"""Writes the pages of comparisons into the store, with records, index and history, and renews stale pages."""

import gzip
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from configs.frozen import Frozen
from configs.questions import find_functions
from tasks.experiments.recordings import FOLDER
from tasks.publish.page.log_lines import stream_lines
from tasks.publish.page.write_page import write_page
from tasks.publish.site.index import StoreIndex, index_comparison
from tasks.publish.site.index_files import pair_file
from tasks.publish.site.index_page import add_comparison, add_results, gather_with_pairs, link_home, update_index
from tasks.records.compared_case import ComparisonRecord
from tasks.records.observation import LOG
from tasks.records.run import RunRecord
from tasks.store.atomic import StoreError
from tasks.store.mirror import out_option
from tasks.store.store import Store

FLOW_RUN = "flow-run.txt"  # in the folder of a comparison: the URL of its Prefect flow run
HEAD = 4_000  # bytes at the beginning of a page that contain its stamp
_STAMP = re.compile(r'<meta name="maxview-stamp" content="([0-9a-f]+)">')


class Built(Frozen):
    """The result of a build."""

    written: int  # number of pages
    kept: int  # number of pages that were up to date
    unread: tuple[str, ...] = ()  # error messages of the records and pages that could not be read or written


def build_site(store: Store, *, tell: Callable[[str], None] = lambda page: None) -> Built:
    """Write each comparison's page that is missing or stale, then the index page and the files beside it.

    A page is stale if its stamp does not fit its record and the code in tasks/publish. `tell` is called with the
    address of each written page. Raises StoreError if the index cannot be written; problems with a comparison are in
    `Built.unread`.
    """
    store.refresh("comparisons")
    written, kept, unread = [], 0, []
    for directory in store.comparisons():
        try:
            if is_current(directory.page, directory.comparison.read_bytes()):
                kept += 1
                continue
            record = directory.read_comparison(listed=True)
            if record is not None:
                page = write_comparison_page(record, store, read_runs_by_name(record, store))
                written.append(index_comparison(record))
                tell(store.address_of(page))
        except StoreError as error:
            unread.append(str(error))

    add = add_results(written, {item.key: item.created for item in written})

    def change(index: StoreIndex, store: Store) -> StoreIndex:
        known = add(index, store) if written else index
        return known if known.total == len(written) + kept else gather_with_pairs(store)

    update_index(store, change)
    return Built(written=len(written), kept=kept, unread=tuple(unread))


def publish_comparison(
    record: ComparisonRecord, store: Store, known: Sequence[RunRecord] = (), *, flow_run: str = ""
) -> Path:
    """Write `comparison.json` and the page, update index and history; return the page's path.

    `known`: run records that are already loaded. `flow_run`: URL of the Prefect flow run, for a link on the page.
    """
    directory = store.comparison(record.comparison, record.case, record.id)
    before, is_new = directory.write_comparison(record)
    if flow_run:
        directory.write_file(FLOW_RUN, flow_run)
    runs = read_runs_by_name(record, store, known)
    page = write_comparison_page(record, store, runs, is_new=is_new)
    update_index(store, add_comparison(record, before.created if before else ""))
    for keep in find_functions("after_publishing"):
        keep(record, store, tuple(runs.values()))
    return page


def write_comparison_page(
    record: ComparisonRecord, store: Store, runs: Mapping[str, RunRecord], *, is_new: bool = False
) -> Path:
    """Write only the page of a comparison whose record is already in the store; return the page's path.

    runs: those of `read_runs_by_name`. is_new: the store has no other file of the comparison.
    """
    directory = store.comparison(record.comparison, record.case, record.id)
    lines: dict[str, Iterator[tuple[int, str]]] = {}
    for arm in (record.baseline, record.candidate):
        for run, log, span in zip(arm.runs, arm.logs, arm.spans, strict=True):
            path = store.run_of_log(log).bring("log.txt") if record.trained else directory.path / FOLDER / run / LOG
            if not record.trained and not arm.has_died:
                continue  # nothing of a recorded step's log is compared
            lines[f"{arm.name}/{run}"] = stream_lines(path, span) if path.is_file() else iter(())
        for text in arm.programs:
            lines[f"{arm.name}/{text}"] = read_packed_lines(store.run_of_log(arm.logs[0]).bring(text))
    page = write_page(
        record,
        directory.path,
        log_lines=lines,
        runs=runs,
        neighbours=f"../../{pair_file(index_comparison(record).pair)}",
        home=link_home(store, depth=4),
        flow_run=made.read_text().strip() if (made := directory.file(FLOW_RUN)).is_file() else "",
        stamp=make_stamp(directory.comparison.read_bytes()),
        out=out_option(store.address),
    )
    directory.push(is_new=is_new)
    return page


def read_runs_by_name(record: ComparisonRecord, store: Store, known: Sequence[RunRecord] = ()) -> dict[str, RunRecord]:
    """Return `arm/run name` → run record; omits runs without a record. `known`: records that are already loaded."""
    here = {run.log: run for run in known}
    found = {}
    for arm in (record.baseline, record.candidate):
        for run, log in zip(arm.runs, arm.logs, strict=True):
            read = here.get(log) or store.run_of_log(log).read_record()
            if read is not None:
                found[f"{arm.name}/{run}"] = read
    return found


def read_packed_lines(text: Path) -> Iterator[tuple[int, str]]:
    """Yield (byte offset in the unpacked text, text) of every line of a gzipped file; nothing if it does not exist."""
    if not text.is_file():
        return
    offset = 0
    with gzip.open(text, "rb") as lines:
        for line in lines:
            yield offset, line.decode("utf-8", "replace").rstrip("\n")
            offset += len(line)


def is_current(page: Path, record: bytes) -> bool:
    """Return whether the page exists and was drawn from this record by the current content of tasks/publish."""
    try:
        with page.open("rb") as file:
            found = _STAMP.search(file.read(HEAD).decode("utf-8", "replace"))
    except FileNotFoundError:
        return False
    return found is not None and found[1] == make_stamp(record)


def make_stamp(record: bytes) -> str:
    """Return the stamp of a page that the current content of tasks/publish draws from this record."""
    return hashlib.sha256(_digest_drawing().encode() + record).hexdigest()[:16]


@cache
def _digest_drawing() -> str:
    """Return the digest of all code, templates, scripts and styles in tasks/publish."""
    files = sorted(
        path for path in Path(__file__).parents[1].rglob("*") if path.suffix in (".py", ".j2", ".js", ".css")
    )
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
