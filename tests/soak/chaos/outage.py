"""Takes the server away in the middle of a flow, and finds what was lost by it."""

import re
import time
from collections import Counter
from typing import Any

from tests.soak.chaos.judge import canonical, differences, phase_of
from tests.soak.chaos.place import Place, wait_until

REVIVED_S = 90.0
FLUSH_S = 15.0  # log lines and events are written in batches
SUFFIX = re.compile("-[0-9a-f]{3}$")  # with which Prefect tells task runs of one name apart


def told_by_server(place: Place, flow_run: str) -> dict[str, Any]:
    """What the server knows of a flow run: its task runs by name and state, artifacts, lines of the trainers' logs."""
    only = {"flow_runs": {"id": {"any_": [flow_run]}}}
    tasks = place.ask("/task_runs/filter", json=only | {"limit": 200})
    artifacts = place.ask("/artifacts/filter", json={"artifacts": {"flow_run_id": {"any_": [flow_run]}}, "limit": 200})
    lines: list[str] = []
    while True:
        wanted = {"logs": {"flow_run_id": {"any_": [flow_run]}}, "limit": 200, "offset": len(lines)}
        page = place.ask("/logs/filter", json=wanted)
        lines += [line["message"] for line in page]
        if len(page) < 200:
            break
    # a task that was tried again may have made its artifact twice; runs have names of their own
    return {
        "tasks": Counter(f"{SUFFIX.sub('', task['name'])} {task['state']['type']}" for task in tasks),
        "artifacts": sorted({artifact["key"] for artifact in artifacts if artifact["key"]}),
        "step lines": sum("completed step:" in line for line in lines),
    }


def outage(place: Place, seconds: float, reference: dict[str, Any], usual: dict[str, Any], speed: str) -> list[str]:
    """Take the server away in the middle of a flow for so long; what was lost by it."""
    flow_run = place.submit("replay", speed)
    wait_until(
        lambda: any(b"completed step: 2," in path.read_bytes() for path in place.out.glob("runs/*/log.txt")), 120
    )
    place.kill("server")
    print(f"server gone {phase_of(place.out)}", flush=True)
    time.sleep(seconds)
    place.up()
    end = flow_run.finish()
    if end.startswith("CRASHED"):  # the server gives up what was silent for longer, until that shows that it lives
        time.sleep(REVIVED_S)
        end = flow_run.finish()
    lost = (
        [] if end.startswith("COMPLETED") else [f"the flow run ended {end}: {place.state_of(flow_run.id)['message']}"]
    )
    lost += differences(canonical(place.out), reference)
    time.sleep(FLUSH_S)
    told = told_by_server(place, flow_run.id)
    lost += [f"{what}: {told[what]} for {usual[what]}" for what in usual if told[what] != usual[what]]
    print(f"server gone for {seconds:g} s: {end}; {told['step lines']} step lines, {sum(told['tasks'].values())} task "
          f"runs, {len(told['artifacts'])} artifacts; lost: {lost or 'nothing'}", flush=True)  # fmt: skip
    return lost
