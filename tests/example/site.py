"""Makes the published example site: generated nights with every verdict, two tiny trainings, and questions' pages.

python -m tests.example.site FOLDER [PAGE…]      PAGE: a saved MaxView page with both logs, to add
"""

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from configs.names import list_names
from flows.cli.commands.compare import compare
from questions.history.history_table import load_history
from questions.history.page import write_history_page
from questions.history.series import find_series, judge_history
from questions.invariants.command import invariants
from questions.invariants.invariants_options import InvariantsOptions
from questions.preflight.command import preflight
from tasks.diff.compare_logs import LogArguments, archive, compare_pair
from tasks.diff.judge.compare_nights import finish_night
from tasks.diff.judge.ingest_command import UNTITLED
from tasks.diff.judge.next_step import make_step
from tasks.diff.phrases.amounts import ONE_RUN
from tasks.ingest.given_logs import LoggedArms, read_arms, read_pair
from tasks.publish.site.comparison_pages import publish_comparison
from tasks.publish.site.index import PAGE
from tasks.publish.site.index_page import publish_night
from tasks.records.compared_case import ComparisonRecord
from tasks.records.night import CellResult, NightCell, NightPlan
from tasks.records.plan import Commit
from tasks.records.run import RunRecord
from tasks.resolve.options import CompareOptions, PreflightOptions
from tasks.scrape.window import LogFormatError
from tasks.store.names import safe_name
from tasks.store.store import Store, open_store
from tests.example.example_logs import LINEN_VS_NNX, ExamplePair, example_pairs

TARGET = "example"  # name of the target in the comparisons of generated logs; no such target exists
QUESTION = "An example: these logs are made up."
OWNER = "the attention team"  # owner of the cases of main-vs-branch
# Case → why it is in quarantine in the last night.
QUARANTINED = {"04_int8": "slower for three nights; its owners look into it"}


def make_demo(documents: Sequence[str], out: str, train: Callable[[], object]) -> str:
    """Make the example site in an empty folder; return the address of its index. Raises ValueError, StoreError.

    documents: paths of saved MaxView pages. train: adds the results of real trainings to the same store.
    """
    store = open_store(out)
    if next(store.files.entries(), None) is not None:
        raise ValueError(f"{store.address}: is not empty; name another folder with --out: an example replaces nothing")
    assert TARGET not in list_names("targets"), "an example must not pass for a place where runs were"
    read = [(document, *_read_document(Path(document))) for document in documents]  # all, before anything is written
    for document, arms, alone in read:
        case = arms.case or (safe_name(arms.baseline[0].file.stem) if alone else UNTITLED)
        place = str(Path(document).absolute())
        publish_comparison(
            compare_pair(
                archive(arms, store), case=case, aa=alone, arguments=LogArguments(baseline=(place,), candidate=(place,))
            ),
            store,
        )
    nights: dict[int, list[ComparisonRecord]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for pair in example_pairs():
            nights.setdefault(pair.night, []).append(_compare(pair, Path(folder), store))
    for night, records in nights.items():
        _write_night(records, QUARANTINED if night == max(nights) else {}, store)
    train()
    return store.address_of(store.path / PAGE)


def add_history(out: str) -> None:
    """Write the page of the site's history. out: the site's address."""
    store = open_store(out)
    write_history_page(judge_history(find_series(load_history(store.files))), store)


def add_real_results(out: str) -> None:
    """Add two tiny trainings, a preflight (with libtpu), a page of invariants, and the history."""
    compare(LINEN_VS_NNX, options=CompareOptions(out=out))
    if find_spec("libtpu"):
        preflight(LINEN_VS_NNX, options=PreflightOptions(out=out))
    else:
        print("no preflight: libtpu is not installed")
    invariants(options=InvariantsOptions(twins=("scan", "dtype"), cases=("01_base",), out=out))
    add_history(out)


def _read_document(document: Path) -> tuple[LoggedArms, bool]:
    """Return (a page's two runs, False), or (the page's only run as both arms, True). Raises ValueError."""
    try:
        return read_pair([document]), False
    except LogFormatError as error:
        try:
            run = read_arms([(document, True)], [(document, True)])
        except LogFormatError:
            raise error from None
        return run, True


def _compare(pair: ExamplePair, folder: Path, store: Store) -> ComparisonRecord:
    sides = []
    for side, texts in zip("ab", pair.logs, strict=True):
        name = f"{pair.comparison}-{pair.case}-{pair.night}-{side}"
        files = [folder / f"{name}{number}.txt" for number in range(1, len(texts) + 1)]
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)
        sides.append([(file, False) for file in files])
    read = read_arms(*sides)
    runs = archive(LoggedArms(names=pair.names, baseline=read.baseline, candidate=read.candidate), store)
    record = compare_pair(runs, case=pair.case, aa=False, target=TARGET).replace(
        comparison=pair.comparison, created=pair.created.isoformat(), question=QUESTION
    )
    by_one_run = any(row.level and row.evidence == ONE_RUN and row.verdict != "same" for row in record.rows)
    if by_one_run and not record.has_died:
        record = record.replace(next_step=make_step(record, "logs", _write_further_logs(pair, store)))
    if pair.commits:
        record = _add_commits(record, runs, pair.commits, store)
    publish_comparison(record, store)
    return record


def _write_further_logs(pair: ExamplePair, store: Store) -> list[str]:
    """Write the logs of all runs of both arms, including further repeats; return the command that compares them."""
    folders = [f"logs/{pair.comparison}-{pair.case}-{pair.night}/{side}" for side in ("baseline", "candidate")]
    for folder, texts, more in zip(folders, pair.logs, pair.further, strict=True):
        for number, text in enumerate((*texts, *more), 1):
            store.files.write(f"{folder}/{number}.txt", text.encode())
    places = [store.address_of(store.path / folder) for folder in folders]
    words = ["maxview", "ingest", "--baseline", places[0], "--candidate", places[1]]
    return [*words, "--case", pair.case, "--target", TARGET, "--out", store.address]


def _add_commits(
    record: ComparisonRecord, runs: Sequence[RunRecord], commits: Sequence[Commit], store: Store
) -> ComparisonRecord:
    """Return the comparison with these commits, which logs do not print. Also stores each run with its arm's commit.

    commits: the candidate's, the newest first, then the baseline's.
    """
    *own, base = commits
    shas = {record.baseline.name: base.sha, record.candidate.name: own[0].sha}
    for run in runs:
        store.run_of_log(run.log).write_record(run.replace(commit=shas[run.arm]))
    sides = {side: getattr(record, side) for side in ("baseline", "candidate")}
    labelled = {
        side: arm.replace(commit=shas[arm.name], label=f"{arm.name} · {shas[arm.name][:9]}")
        for side, arm in sides.items()
    }
    record = record.replace(**labelled, commits={record.candidate.name: tuple(own)})
    by_hand = record.next_step is not None and record.next_step.kind == "by hand"
    return record.replace(next_step=make_step(record, "by hand")) if by_hand else record


def _write_night(records: Sequence[ComparisonRecord], quarantined: Mapping[str, str], store: Store) -> None:
    """Store and publish the record of a night with these comparisons. quarantined: case → reason."""
    day = records[0].created[:10]
    cells = [
        NightCell(
            comparison=record.comparison,
            case=record.case,
            owner=OWNER if record.comparison == "main-vs-branch" else "",
            quarantine=quarantined.get(record.case, ""),
        )
        for record in records
    ]
    plan = NightPlan(id=day, created=records[0].created, target=TARGET, slices=1, request="example", cells=tuple(cells))
    results = [
        CellResult(
            cell=cell,
            outcome=record.verdict,
            headline=record.headline,
            conclusion=record.conclusion,
            died=record.has_died,
            page=str(store.comparison(record.comparison, record.case, record.id).page),
        )
        for cell, record in zip(cells, records, strict=True)
    ]
    night = finish_night(plan, results, store).replace(ended=records[-1].created)
    store.files.write(f"nightly/{day}/record.json", night.model_dump_json(indent=1).encode())
    publish_night(store, night)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.example.site", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", help="where the site is made; it must be empty")
    parser.add_argument("pages", nargs="*", metavar="page", help="a saved MaxView page with both logs, to add")
    given = parser.parse_args()
    print(make_demo(given.pages, given.folder, lambda: add_real_results(given.folder)))
