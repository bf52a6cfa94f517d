"""The command line `maxview`. Slow imports happen inside the commands that need them."""

import json
import os
import sys
import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import cyclopts
from cyclopts import Parameter
from rich.console import Console

app = cyclopts.App(
    name="maxview",
    help="Did this change anything? Trains a case twice, proves the checkpoints, and says what differs.\n\n"
    "Exit status: 0 nothing regressed; 1 something regressed or an arm failed; 2 the input is wrong; "
    "3 unknown or not comparable; 130 interrupted.",
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,  # `call` has a word to say about it
)

Out = Annotated[str, Parameter(name="--out", help="Folder or gs://bucket/prefix for runs, records and pages.")]
Case = Annotated[
    list[str] | None, Parameter(name="--case", help="A case, again for more; all: every case.", negative="")
]
Set = Annotated[list[str] | None, Parameter(name="--set", help="key=value for both arms, again for more.", negative="")]
Json = Annotated[bool, Parameter(name="--json", help="Print the records as JSON on standard output.", negative="")]
State = Annotated[Path | None, Parameter(help="Folder of the server's database and logs.")]

DEFAULT_OUT = "maxview-out"
LONGEST_WORD = 4_096  # as long as a path can be
DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # they reorder text


@app.command
def compare(
    name: str,
    /,
    *,
    case: Case = None,
    target: str | None = None,
    model: str | None = None,
    repeats: int | None = None,
    set_: Set = None,
    branch: str | None = None,
    baseline: str | None = None,
    repository: str | None = None,
    with_: Annotated[list[str] | None, Parameter(name="--with", negative="")] = None,
    aa: Annotated[bool, Parameter(negative="")] = False,
    until_decided: Annotated[bool, Parameter(negative="")] = False,
    budget: str | None = None,
    max_repeats: int | None = None,
    out: Out = DEFAULT_OUT,
    fresh: Annotated[bool, Parameter(negative="")] = False,
    comment: str | None = None,
    json_: Json = False,
) -> int:
    """Train both arms of a comparison and say what differs.

    Parameters
    ----------
    name
        A comparison: a file in configs/comparisons, for example linen-vs-nnx.
    target
        Where to run (cpu, cpu-8, …); the comparison's own by default.
    model
        The model file; the target's own by default.
    repeats
        Runs per arm, interleaved.
    branch
        For main-vs-branch: the branch, tag or commit to judge; HEAD by default.
    baseline
        What to judge it against; main by default.
    repository
        A clone's folder or an address that has both; maxview's own checkout by default.
    with_
        ARM:PACKAGE, again for more: what one arm runs apart from the other, for example branch:jax==0.11.0;
        branch:project for what its pyproject.toml asks for; branch:/path/to/python for an environment that exists.
    aa
        Both arms are meant to be the same commit: a control that measures the noise.
    until_decided
        Go on with more repeats, interleaved, until every judged row is decided or the budget ends.
    budget
        The time for that: 90s, 10m, 2h.
    max_repeats
        The runs per arm for that; 30 by default.
    fresh
        Train again even if equal runs have finished before.
    comment
        A pull request on GitHub, owner/name#12: its one comment of this comparison is written or brought up to date,
        with the token in MAXVIEW_GITHUB_TOKEN.
    """
    from configs.durations import read_budget
    from tasks.arms import ArmWishes
    from tasks.resolve import Request, resolve

    # the input is checked here too: a mistake should not cost the start of a server
    request = Request(
        comparison=name,
        cases=tuple(case or ()),
        target=target,
        model=model,
        repeats=repeats,
        overrides=tuple(set_ or ()),
        arms=ArmWishes(baseline=baseline, branch=branch, repository=repository, software=tuple(with_ or ()), aa=aa),
    )
    budget_s = read_budget(budget, max_repeats, until_decided=until_decided)
    resolve(request, Path(out))
    if comment is not None:
        from tasks.publish.pull_request import parse_pull_request

        parse_pull_request(comment)
    _check_out(out)

    def run() -> Any:
        from flows.compare import compare as flow

        return flow(
            comparison=name,
            cases=list(case or []),
            target=target,
            model=model,
            repeats=repeats,
            overrides=list(set_ or []),
            branch=branch,
            baseline=baseline,
            repository=repository,
            software=list(with_ or []),
            aa=aa,
            until_decided=until_decided,
            budget_s=budget_s,
            max_repeats=max_repeats,
            out=_place(out),
            fresh=fresh,
            comment=comment,
            return_state=True,
        )

    return _run_flow(run, as_json=json_)


@app.command
def ingest(
    logs: Annotated[
        list[str], Parameter(help="Two logs, baseline first, or one saved MaxView page with both; files or gs://.")
    ],
    /,
    *,
    case: str | None = None,
    out: Out = DEFAULT_OUT,
    aa: Annotated[bool, Parameter(help="The two are meant to be the same commit.", negative="")] = False,
    json_: Json = False,
) -> int:
    """Compare runs from the logs that they left.

    Parameters
    ----------
    case
        The case's name, where the logs do not tell it.
    """
    from tasks.ingest import read_pair
    from tasks.scrape.buckets import on_this_machine

    with on_this_machine(logs) as paths:
        read_pair(paths)
    _check_out(out)

    def run() -> Any:
        from flows.ingest import ingest as flow

        return flow(logs=[_place(log) for log in logs], case=case, out=_place(out), aa=aa, return_state=True)

    return _run_flow(run, as_json=json_)


@app.command
def scrape(
    logs: Annotated[
        list[str],
        Parameter(help="Files, folders, gs:// addresses, or - for standard input.", allow_leading_hyphen=True),
    ],
    /,
    *,
    format_: Annotated[Literal["table", "json", "parquet"], Parameter(name="--format")] = "table",
    output: Annotated[
        Path | None, Parameter(name=["-o", "--output"], help="File to write; default: the terminal.")
    ] = None,
    schedule: Annotated[
        Path | None, Parameter(help="SVG file for the pipeline schedule that a Megatron log shows.")
    ] = None,
) -> int:
    """Read logs into tables: of MaxText, maxview, Megatron-LM and its relatives, torchtitan.

    A stream may still go on (kubectl logs -f POD | maxview scrape -); Ctrl-C ends it and gives what came so far.
    Step lines that were seen and could not be read are told on standard error; the exit status stays 0.
    """
    from flows.notes import show_progress, warn_of_unread
    from flows.show import show_reading, write_schedule
    from tasks.scrape import read_sources

    told = partial(show_progress, Console(stderr=True))
    reading = read_sources(logs, stream=sys.stdin.buffer, on_progress=told)
    if schedule is not None:
        write_schedule(reading, schedule)
    show_reading(reading, format_, output)
    warn_of_unread(reading)
    return 0


@app.command
def verify(
    checkpoints: list[str],
    /,
    *,
    deep: Annotated[bool, Parameter(help="Decode every chunk and look for NaN and infinities.", negative="")] = False,
    record: Annotated[bool, Parameter(help="Write a crc32c manifest of each sound checkpoint.", negative="")] = False,
    check: Annotated[bool, Parameter(help="Compare with the manifest that was recorded.", negative="")] = False,
    json_: Json = False,
) -> int:
    """Prove that checkpoints are really there: a step's folder, a checkpoints folder, or a run's folder."""
    from flows.show import show_proofs
    from flows.terminal import byte_progress
    from tasks.records import CheckpointProof
    from tasks.verify import verify_checkpoints

    if record and check:
        raise ValueError("--record and --check exclude each other: record a manifest once, then check against it")
    mode: Literal["record", "check", "none"] = "record" if record else "check" if check else "none"
    proofs: list[CheckpointProof] = []
    with byte_progress(Console(stderr=True)) as progress:
        for path in checkpoints:
            proofs += verify_checkpoints(path, mode=mode, deep=deep, on_progress=progress)
    show_proofs(proofs, as_json=json_)
    if any(problem.check == "commit" for proof in proofs for problem in proof.problems):
        return 2  # what was named is no committed checkpoint; damage to one that is gives 1
    return 0 if all(proof.ok for proof in proofs) else 1


@app.command(name="resolve")
def resolve_command(
    case: str,
    /,
    *,
    comparison: str = "linen-vs-nnx",
    arm: str | None = None,
    target: str | None = None,
    model: str | None = None,
    set_: Set = None,
    json_: Json = False,
) -> int:
    """Show the resolved config of a case with the origin of every value.

    Parameters
    ----------
    case
        A case, for example 03_dropout.
    arm
        One arm of the comparison; its first by default.
    """
    from configs.comparison import load_comparison, load_target
    from flows.show import show_config
    from tasks.resolve import find_arm, resolve_config

    spec = load_comparison(comparison)
    name = find_arm(spec, arm) if arm else spec.arms[0].name
    place = load_target(target or spec.target)
    show_config(resolve_config(spec, place, case=case, arm=name, overrides=set_ or (), model=model), as_json=json_)
    return 0


@app.command
def cases(*, json_: Json = False) -> int:
    """Show the cases, targets, models and comparisons there are."""
    from flows.show import show_matrix

    show_matrix(as_json=json_)
    return 0


@app.command
def up(
    *,
    out: Out = DEFAULT_OUT,
    state: State = None,
    host: str = "127.0.0.1",
    port: int = 4200,
    pool: str = "maxview",
    runs: Annotated[int, Parameter(help="Flow runs that the worker has at once.")] = 4,
) -> int:
    """Bring up a Prefect server with pool, limits, automations, deployments and a worker; again: bring it up to date.

    PREFECT_SERVER_API_AUTH_STRING (user:password) asks for a password, PREFECT_SERVER_DATABASE_CONNECTION_URL uses
    PostgreSQL instead of SQLite, MAXVIEW_WEBHOOK_URL is told what changed overnight.

    Parameters
    ----------
    host
        Where the server listens; other places than this machine need a password.
    pool
        The work pool; a pool that exists is used as it is.
    """
    from flows import up as services

    where = state or services.default_state(os.environ)
    place = services.Place(state=where.absolute(), out=_place(out), host=host, port=port, pool=pool, runs=runs)
    _check_out(out)
    errors = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    services.start(place, errors.print)
    print(f"Prefect: {place.url}")
    print("next: prefect deployment run compare/main-vs-branch --watch -p branch=feat/x")
    print(f"      with PREFECT_API_URL={place.url}/api; maxview down ends it")
    return 0


@app.command
def down(*, state: State = None) -> int:
    """End the worker that `maxview up` started, the runs that it has begun, and the server; what they know stays."""
    from flows import up as services

    errors = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    if not services.stop(state or services.default_state(os.environ), errors.print):
        errors.print("nothing is up")
    return 0


@app.command
def nightly(
    *,
    case: Case = None,
    comparison: Annotated[list[str] | None, Parameter(negative="")] = None,
    target: str | None = None,
    repeats: int | None = None,
    set_: Set = None,
    config: Path | None = None,
    out: Out = DEFAULT_OUT,
    fresh: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Run every case of every comparison in configs/nightly.yml, or go on with a night that was not finished.

    Parameters
    ----------
    comparison
        A comparison, again for more; those of configs/nightly.yml by default.
    target
        Where to run; as configs/nightly.yml says by default.
    repeats
        Runs per arm, interleaved.
    config
        Another file than configs/nightly.yml.
    fresh
        Do not go on with a night of today that was not finished.
    """
    from configs.nightly import load_nightly

    load_nightly(config)
    _check_out(out)

    def run() -> Any:
        from flows.nightly import nightly as flow

        return flow(
            comparisons=list(comparison or []),
            cases=list(case or []),
            target=target,
            repeats=repeats,
            overrides=list(set_ or []),
            config=str(config.absolute()) if config else None,
            out=_place(out),
            fresh=fresh,
            return_state=True,
        )

    state, _ = _finish_flow(run)
    from tasks.night import read_records
    from tasks.publish.nightly import night_markdown
    from tasks.store import open_store

    record = max(read_records(open_store(out)), key=lambda record: record.ended, default=None)
    if record is None or state.is_crashed() or (state.is_failed() and state.name != "Regressed"):
        raise FlowError(state.message or "the night did not finish")
    print(night_markdown(record), end="")
    return 1 if record.bad else 3 if state.name == "Unknown" else 0


@app.command
def history(
    case: str | None = None,
    /,
    *,
    metric: Annotated[list[str] | None, Parameter(help="A metric, again for more.", negative="")] = None,
    target: str | None = None,
    since: Annotated[str | None, Parameter(help="A date, or how long ago: 12h, 30d, 8w.")] = None,
    rebuild: Annotated[bool, Parameter(help="First write it anew from the folders of the store.", negative="")] = False,
    compact: Annotated[bool, Parameter(help="First put its many small files into one.", negative="")] = False,
    out: Out = DEFAULT_OUT,
    json_: Json = False,
) -> int:
    """Show how metrics went over all comparisons: trends, changes of level, and whose doing they can be.

    Parameters
    ----------
    case
        A case, for example 03_dropout; every case by default.
    target
        Where the runs were; every target by default.
    """
    from flows.trends import show_history

    return show_history(
        out,
        case=case,
        metrics=metric or (),
        target=target,
        since=since,
        as_json=json_,
        rebuild=rebuild,
        compact=compact,
    )


@app.command
def doctor(*, out: Out = DEFAULT_OUT) -> int:
    """Show what works and what is missing on this machine."""
    from flows.doctor import examine

    return examine(out)


def _check_out(out: str) -> None:
    from tasks.store import open_store

    open_store(out)


def _place(out: str) -> str:
    """A path or address that means the same in another working directory."""
    return out if "://" in out else str(Path(out).absolute())


def _run_flow(run: Callable[[], Any], *, as_json: bool) -> int:
    """Run a flow in this process with a live view, print its comparisons, and return the exit status."""
    from tasks.diff import exit_status
    from tasks.publish.terminal import render_terminal

    state, report = _finish_flow(run)
    records = [record for record, _ in report.comparisons]
    if not records or (state.is_failed() and state.name != "Regressed") or state.is_crashed():
        raise FlowError(state.message or "the flow did not finish")
    if as_json:
        print(json.dumps([json.loads(record.model_dump_json()) for record in records], indent=1))
    else:
        console = Console()
        for record, page in report.comparisons:
            remote = "://" in page.address
            shown = page.address if remote else os.path.relpath(page.path)
            console.print(render_terminal(record, page=shown, link=page.link if remote else None))
    return exit_status(records)


def _finish_flow(run: Callable[[], Any]) -> tuple[Any, Any]:
    """Run a flow in this process with a live view; its final state, and the report with what it compared."""
    from flows import environment

    environment.prepare()
    from flows.report import reporting_to
    from flows.server import prefect_api
    from flows.terminal import TerminalReport

    with TerminalReport(Console(stderr=True)) as report, prefect_api(), reporting_to(report):
        return run(), report


class FlowError(RuntimeError):
    """The flow itself failed, not one of the arms; the message says where."""


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, run, and turn every outcome into an exit status."""
    sys.exit(call(argv))


def call(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; errors of input are one message on standard error."""
    errors = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    try:
        check_words(sys.argv[1:] if argv is None else argv)
        result = app(argv, exit_on_error=False, print_error=True, result_action="return_value")
    except cyclopts.CycloptsError:
        return 2  # cyclopts has printed what is wrong
    except (ValueError, FlowError) as error:
        from tasks.publish.text import visible_lines

        errors.print(f"maxview: {visible_lines(str(error))}")
        return 2
    except KeyboardInterrupt:
        errors.print("maxview: interrupted; the same command goes on from here")
        return 130
    return result if isinstance(result, int) else 0


def check_words(words: Sequence[str]) -> None:
    """Raises ValueError for a word that no name, path or value can be, and that a terminal would act on."""
    for number, word in enumerate(words, start=1):
        if len(word) > LONGEST_WORD:
            raise ValueError(
                f"word {number} of the command line has {len(word):,} characters, at most {LONGEST_WORD:,} are "
                "possible: shorten it"
            )
        acting = next((char for char in word if unicodedata.category(char) in ("Cc", "Cs") or char in DIRECTIONS), None)
        if acting is not None:
            raise ValueError(
                f"word {number} of the command line holds the character U+{ord(acting):04X}, which cannot be shown "
                f"({word!a:.80}): type it without, and rename a file that is called so"
            )


if __name__ == "__main__":
    main()
