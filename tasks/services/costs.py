"""Remembers how long work took on this machine, to tell the cost of a command before it begins."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from configs.names import default_cache
from tasks.diff.phrases.amounts import show_duration
from tasks.records.plan import RunPlan
from tasks.records.text import counted
from tasks.store.atomic import StoreError, write_atomically

RUN, AFTER = "one run", "experiments after the runs"
FILE = "costs.json"  # in the cache: what, case, target and model → seconds of the last time


def note_cost(what: str, plan: RunPlan, seconds: float) -> None:
    """Remember how long `what` took for a plan's case here. A cache that cannot be written is as good as none."""
    known = _read() | {_key(what, plan): round(seconds, 1)}
    try:
        write_atomically(default_cache() / FILE, json.dumps(known, indent=1) + "\n")
    except StoreError:
        return


def tell_cost(plans: Sequence[RunPlan], finished: frozenset[str], only: Iterable[str]) -> str:
    """Return what a command will do, and how long that took last time here.

    plans: of all runs. finished: names of those that are kept. only: the experiments of `--only`; empty: train.
    """
    cases = {plan.case: plan for plan in plans}
    asked = ",".join(sorted(only))
    several = f"{counted(len(cases), 'case')}: "
    if asked:
        seconds = [_known(asked, plan) for plan in cases.values()]
        return f"{several}{asked.replace(',', ' and ')} without training, {_tell(seconds)}"
    todo = [plan for plan in plans if plan.run_name not in finished]
    kept = f" ({len(plans) - len(todo)} finished before)" if len(todo) < len(plans) else ""
    if not todo:
        seconds = [_known(AFTER, plan) for plan in cases.values()]
        return (
            f"{several}all {counted(len(plans), 'run')} finished before; experiments on the programs, {_tell(seconds)}"
        )
    seconds = [*(_known(RUN, plan) for plan in todo), *(_known(AFTER, plan) for plan in cases.values())]
    return f"{several}{counted(len(todo), 'run')} to train{kept}, and experiments on the programs, {_tell(seconds)}"


def _tell(seconds: Sequence[float | None]) -> str:
    known = [one for one in seconds if one is not None]
    if not known:
        return "for the first time here: not known how long"
    more = "" if len(known) == len(seconds) else " or more"
    return f"about {show_duration(sum(known))}{more} by the last time here"


def _key(what: str, plan: RunPlan) -> str:
    # the model's file and --set change how long a run takes
    size = ",".join(
        f"{key}={plan.config[key]}" for key in ("steps", "base_emb_dim", "max_target_length") if key in plan.config
    )
    return f"{what} of {plan.comparison} {plan.case} on {plan.target} {size}".strip()


def _known(what: str, plan: RunPlan) -> float | None:
    found = _read().get(_key(what, plan))
    return float(found) if isinstance(found, int | float) else None


def _read() -> dict[str, float]:
    try:
        found = json.loads(Path(default_cache() / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
