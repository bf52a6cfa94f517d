"""Plans the job of a cluster that times both arms' programs in turns on the machines of the runs; reads its log."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from configs.backends.settings import ImageSettings
from maxview_probe.inject import START
from maxview_probe.turns.record_and_time import MARK, PLACE
from tasks.experiments.interleave import COMPILE_S, OWN_VARIABLES, TurnLimits, python_of, read_result
from tasks.experiments.recordings import BATCHES, SIDES, Both
from tasks.launch.local.process_group import move_plan, start_folder
from tasks.records.plan import RunFiles, RunPlan
from tasks.records.program_times import ProgramTimes
from tasks.resolve.trainers.trainer import CONFIG_IN_POD
from tasks.store.directories import config_text
from tasks.store.store import Store

ARM = "turns"  # in the place of an arm in the job's name
MODULE = "maxview_probe.turns.record_and_time"
PYTHON = "python"  # of an image


def find_obstacle(plans: Both[RunPlan]) -> str:
    """Return why the programs of two plans for a cluster cannot run in one job, as a sentence, or ""."""
    left, right = (plan.launch for plan in plans)
    if not isinstance(left, ImageSettings) or not isinstance(right, ImageSettings) or left.facts != right.facts:
        return "the runs of the arms are on other machines or in other images, and turns need one job for both"
    if not right.alone:
        return "turns need runs of one process, because a recording holds the arrays of one"
    return ""


def plan_turns(plans: Both[RunPlan], limits: TurnLimits, store: Store) -> RunPlan:
    """Return the plan of the job, with the machines, image and priority of the runs. `find_obstacle` must find none."""
    launch = plans[1].launch
    assert isinstance(launch, ImageSettings)
    image = launch.image is not None
    arms = [_describe(plan, side, image=image) for plan, side in zip(plans, SIDES, strict=True)]
    turns = {
        "names": [plan.arm for plan in plans], "chance": limits.chance, "tolerance": limits.tolerance,
        "least": limits.least, "limit_s": limits.limit_s,
    }  # fmt: skip
    apart = any(arms[0][key] != arms[1][key] for key in ("python", "turn_environment"))
    specification = json.dumps({"arms": arms, "turns": turns, "apart": apart})
    start = ("-m", MODULE) if image else (str(START), MODULE.partition(".")[2])
    digest = hashlib.sha256(f"{plans[0].identity}\0{plans[1].identity}\0{limits!r}".encode()).hexdigest()[:10]
    name = f"{plans[0].case}-{ARM}-{digest}"
    python = PYTHON if image else python_of(plans[1])
    changes = {
        "arm": ARM, "repeat": 0, "run_name": name, "directory": str(store.run(name).path), "identity": digest,
        "trainer": "command", "environment": {}, "argv": (python, *start, specification),
        "time_limit_s": round(limits.limit_s + 2 * COMPILE_S), "files": RunFiles(checkpoints=None), "start": None,
        "checkout": None, "start_folder": None,
    }  # fmt: skip
    return plans[1].replace(**changes)


def _describe(plan: RunPlan, side: str, *, image: bool) -> dict[str, Any]:
    """Return an arm's part of the specification; its run's folder is below PLACE."""
    moved = move_plan(plan, Path(PLACE) / side / "run")
    config = f"{moved.directory}/config.yml"
    turns = {
        name: value
        for name, value in plan.environment.items()
        if name not in OWN_VARIABLES and not name.startswith("MAXVIEW_")
    }
    return {
        "name": plan.arm,
        "argv": [config if word == CONFIG_IN_POD else word for word in moved.argv],
        "environment": moved.environment,
        "turn_environment": turns,
        "cwd": None if image else str(start_folder(plan)),
        "files": {config: config_text(moved.replace(origins={}))},
        "recorder": {"observe": True, "batches": min(BATCHES, int(plan.config["steps"]))},
        "python": PYTHON if image else python_of(plan),
    }


def read_turns(log: Path, limits: TurnLimits) -> ProgramTimes:
    """Return the result in a job's log; with a `problem` if there is none."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    found: list[Mapping[str, Any]] = [json.loads(line.removeprefix(MARK)) for line in lines if line.startswith(MARK)]
    if not found:
        said = [line for line in lines if line.strip() and not line.startswith(("XPK ", "EXIT_CODE="))]
        return ProgramTimes(problem=f"the job of the turns left no result ({said[-1][:200] if said else 'no log'})")
    return read_result(found[-1], limits, processes=found[-1].get("processes", 1))
