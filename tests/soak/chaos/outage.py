"""Stops the server in the middle of a flow, and reports lost task runs, artifacts and log lines."""

import re
import time
from collections import Counter
from typing import Any

from tests.soak.chaos.compare_stores import canonical, differences, phase_of
from tests.soak.chaos.place import Place, wait_until

REVIVED_S = 90.0
FLUSH_S = 15.0  # log lines and events are written in batches
SUFFIX = re.compile("-[0-9a-f]{3}$")  # Prefect's suffix for task runs of one name


def told_by_server(place: Place, flow_run: str) -> dict[str, Any]:
    """Return the server's data of a flow run: task runs by name and state, artifacts, and trainers' log lines."""
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
    # a retried task may have created its artifact twice; names of runs are unique
    return {
        "tasks": Counter(f"{SUFFIX.sub('', task['name'])} {task['state']['type']}" for task in tasks),
        "artifacts": sorted({artifact["key"] for artifact in artifacts if artifact["key"]}),
        "step lines": sum("completed step:" in line for line in lines),
    }


def outage(place: Place, seconds: float, reference: dict[str, Any], usual: dict[str, Any], speed: str) -> list[str]:
    """Stop the server in the middle of a flow for `seconds`; return the losses."""
    flow_run = place.submit("replay", speed)
    wait_until(
        lambda: any(b"completed step: 2," in path.read_bytes() for path in place.out.glob("runs/*/log.txt")), 120
    )
    place.kill("server")
    print(f"server gone {phase_of(place.out)}", flush=True)
    time.sleep(seconds)
    place.up()
    end = flow_run.finish()
    if end.startswith("CRASHED"):  # the server marks silent flow runs as crashed until their next heartbeat
        time.sleep(REVIVED_S)
        end = flow_run.finish()
    lost = (
        [] if end.startswith("COMPLETED") else [f"the flow run ended {end}: {place.state_of(flow_run.id)['message']}"]
    )
    lost += differences(canonical(place.out), reference)
    time.sleep(FLUSH_S)
    reported = told_by_server(place, flow_run.id)
    lost += [f"{what}: {reported[what]} for {usual[what]}" for what in usual if reported[what] != usual[what]]
    print(f"server gone for {seconds:g} s: {end}; {reported['step lines']} step lines, "
          f"{sum(reported['tasks'].values())} task runs, {len(reported['artifacts'])} artifacts; "
          f"lost: {lost or 'nothing'}", flush=True)  # fmt: skip
    return lost
