"""`maxview nightly`: words to the flow `nightly`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from flows.cli.commands.flow_runs import FlowError, finish_flow, index_of
from flows.cli.commands.options import DEFAULT_OUT, Case, Json, Out, Set, check_out


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
    json_: Json = False,
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
    from tasks.resolve.night import NightRequest, check_request

    # the input is checked here too: a mistake should not cost the start of a server
    request = NightRequest(
        config=str(config.absolute()) if config else None,
        comparisons=tuple(comparison or ()),
        cases=tuple(case or ()),
        target=target,
        repeats=repeats,
        overrides=tuple(set_ or ()),
        fresh=fresh,
    )
    check_request(request)
    check_out(out)

    state, _ = finish_flow("nightly", request.model_dump(mode="json"), out)
    from tasks.publish.markdown.night import night_markdown
    from tasks.resolve.night import read_records
    from tasks.store import open_store

    record = max(read_records(open_store(out)), key=lambda record: record.ended, default=None)
    if record is None or state.is_crashed() or (state.is_failed() and state.name != "Regressed"):
        raise FlowError(state.message or "the night did not finish")
    if json_:
        print(record.model_dump_json(indent=1))
    else:
        print(night_markdown(record), end="")
        print(f"\nindex: {index_of(out)}")
    return 1 if record.bad else 3 if state.name == "Unknown" else 0
