"""The command `maxview nightly`, which runs the flow `nightly`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from flows.cli.commands.common_options import Json, check_store
from flows.cli.commands.run_flow import FlowError, finish_flow, index_of
from tasks.resolve.options import NightOptions


def nightly(*, options: Annotated[NightOptions, Parameter(name="*")] = NightOptions(), json_: Json = False) -> int:
    """Run every case of every comparison in configs/nightly.yml, or resume an unfinished night."""
    from questions.nightly.plan_night import check_night

    # checked before the flow, because starting a server for it takes seconds
    if options.config:
        options = options.replace(config=str(Path(options.config).absolute()))
    check_night(options)
    check_store(options.out)

    state, _ = finish_flow("nightly", dict(options))
    from tasks.publish.markdown.night import night_markdown
    from tasks.store.nights import read_nights
    from tasks.store.store import open_store

    record = max(read_nights(open_store(options.out)), key=lambda record: record.ended, default=None)
    if record is None or state.is_crashed() or (state.is_failed() and state.name != "Regressed"):
        raise FlowError(state.message or "the night did not finish")
    if json_:
        print(record.model_dump_json(indent=1))
    else:
        print(night_markdown(record), end="")
        print(f"\nindex: {index_of(options.out)}")
    return 1 if record.is_bad else 3 if state.name == "Unknown" else 0
