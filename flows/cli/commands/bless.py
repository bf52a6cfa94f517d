"""The command `maxview bless`: stores the candidate's runs of finished comparisons as baselines."""

import json
import shlex
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from configs.names import BLESSED
from flows.cli.commands.common_options import DEFAULT_OUT, Case, Json, Out


def bless(
    comparison: str,
    /,
    *,
    reason: Annotated[str, Parameter(help="Why these values are right from now on.")],
    case: Case = None,
    target: str | None = None,
    to: Annotated[str, Parameter(help="Another folder than configs/baselines, or a file ….json.")] = BLESSED,
    out: Out = DEFAULT_OUT,
    json_: Json = False,
) -> int:
    """Keep the candidate's runs as the baseline that `compare --baseline blessed` and nightlies compare with.

    The baseline's file lists the old and new values, the reason and the commit of every blessing.

    Parameters
    ----------
    comparison
        A comparison, for example linen-vs-nnx: its newest result of every case.
    target
        The target of the comparison; every target by default.
    """
    from tasks.publish.content.typed_command import as_typed
    from tasks.resolve.blessed import bless as bless_record
    from tasks.store.baselines import name_place
    from tasks.store.mirror import out_option
    from tasks.store.store import open_store
    from tasks.store.stored_comparisons import newest_comparisons

    if not reason.strip():
        raise ValueError('--reason is empty: say why these values are right, for example --reason "new initializer"')
    store, console = open_store(out, reading=True), Console(highlight=False, markup=False, soft_wrap=True)
    cases = None if case is None or "all" in case else set(case)
    records = [
        record
        for record in newest_comparisons(store, comparison)
        if target in (None, record.target) and (cases is None or record.case in cases) and record.programs is None
    ]
    if not records:
        raise ValueError(f"{store.address} has no finished {comparison} of that; first: maxview compare {comparison}")
    blessed = [(record, *bless_record(record, store, reason, to)) for record in records]
    if json_:
        found = [
            {"case": record.case, "target": record.target, "file": str(path), **blessing.model_dump(mode="json")}
            for record, path, blessing in blessed
        ]
        print(json.dumps(found, indent=1))
        return 0
    for record, path, blessing in blessed:
        console.print(f"{record.case} · {record.target} · {record.candidate.label}: {path}")
        for name, (old, new) in blessing.values.items():
            console.print(f"  {name}: {old} → {new}")
    words = ["maxview", "compare", comparison, "--baseline", name_place(to)]
    words += ["--case", records[0].case, "--target", records[0].target, *out_option(store.address)]
    console.print(f"next: {as_typed(shlex.join(words))}")
    return 0
