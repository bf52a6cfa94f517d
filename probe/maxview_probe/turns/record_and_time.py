"""Records the steps of both arms and times them in turns, in one job on the machines of the runs.

    python …/start.py turns.record_and_time SPECIFICATION

The specification is the JSON object that `tasks.experiments.turns_job` writes. Trainers and turns run in processes of
their own. The last line of standard output is MARK and the result of `take_turns`, as JSON. Needs the standard library
only, because a trainer's image need not hold more.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maxview_probe.inject import INJECTED, START
from maxview_probe.turns.process_end import describe_end
from maxview_probe.turns.turn_note import read_note

MARK = "maxview: turns: "
PLACE = "@FOLDER@"  # in a specification: the folder for recordings
SIDES = ("baseline", "candidate")


def record(arm: Mapping[str, Any], folder: Path, environment: Mapping[str, str]) -> None:
    """Run an arm's command until its step is recorded in `folder`."""
    for path, text in arm["files"].items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
    settings = folder / "settings.json"
    settings.write_text(json.dumps(arm["recorder"]), encoding="utf-8")
    own = {**environment, **arm["environment"], "MAXVIEW_OBSERVE": str(settings)}
    own["PYTHONPATH"] = os.pathsep.join(filter(None, (str(INJECTED), own.get("PYTHONPATH"))))
    subprocess.run(arm["argv"], env=own, cwd=arm["cwd"], stdin=subprocess.DEVNULL, check=False)


def record_and_run(given: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the result of `take_turns`, or {"error": sentence, "arm": name}."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAXVIEW_", "JAX_DUMP"))}
    arms, settings, result = given["arms"], folder / "turns.json", folder / "result.json"
    platforms = []
    for arm, side in zip(arms, SIDES, strict=True):
        print(f"recording the step of {arm['name']}", flush=True)
        (folder / side).mkdir()
        try:
            record(arm, folder / side, inherited)
            platforms.append(json.loads((folder / side / "observation.json").read_text())["platform"])
        except OSError as error:
            missing = isinstance(error, FileNotFoundError) and str(error.filename).endswith("observation.json")
            why = "its process ended before a step, see the log" if missing else str(error)
            return {"error": f"the step was not recorded: {why}", "arm": arm["name"]}
    turns = {**given["turns"], **{side: str(folder / side) for side in SIDES}}
    environments = [{**inherited, **arm["turn_environment"]} for arm in arms]
    python = arms[0]["python"]
    if given["apart"]:
        if "tpu" in platforms:
            why = "a TPU belongs to one process, and the arms have other software or environments"
            return {"error": why, "arm": arms[1]["name"]}
        turns["pythons"] = [[arm["python"], own] for arm, own in zip(arms, environments, strict=True)]
        python = sys.executable
    settings.write_text(json.dumps(turns), encoding="utf-8")
    argv = [python, "-W", "ignore", str(START), "turns.take_turns", str(settings), str(result)]
    code = subprocess.run(argv, env=environments[0], stdin=subprocess.DEVNULL, check=False).returncode
    if code:
        return {"error": f"{describe_end(code)}{read_note(result)}", "arm": "the process with both programs"}
    found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return {**found, "processes": 1 + given["apart"]}


def main() -> None:
    """Print the result of the specification."""
    with tempfile.TemporaryDirectory() as folder:
        found = record_and_run(json.loads(sys.argv[1].replace(PLACE, folder)), Path(folder))
    print(MARK + json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
