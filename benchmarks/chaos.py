"""Kills flow, worker, server and trainer with SIGKILL at random moments, and shows what became of the comparison.

    uv run python -m benchmarks.chaos [--kills 40] [--seed 0] [--trained 10] [--outage 60] [--only server]

One `maxview up` in a temporary folder, with a copy of the packages. First a comparison of two tiny trainings is left
alone, and so is one that replays their logs: what they record is the reference. Then every kill falls into a comparison
of its own, trained or replayed, at a moment drawn from the time that the undisturbed one took. What was killed is
brought back the way a user would: `maxview up` again for server and worker, the same run again where a flow or a
trainer was lost. Afterwards every canonical value (losses and norms of each step, digests of weights and checkpoints,
proofs, floors, verdict) must be the reference's, no run may have been trained again after it had ended well nor from
further back than its last committed checkpoint, and no job may be left. `--outage` takes the server away for that many
seconds in the middle of a flow: every task run, artifact and log line must be there in the end.
"""

import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psutil

from benchmarks.machine import describe_machine
from benchmarks.nightly_load import COPIED, ROOT, free_port
from flows.processes import Kept, session_of
from tasks.launch.supervise import GUARD
from tasks.records import RunRecord
from tasks.store import Store

KINDS = ("flow", "worker", "server", "trainer")
FINAL = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
STEPS = 20
SETTINGS = (f"steps={STEPS}", "checkpoint_period=5")
PATIENCE_S = 300.0  # after which a comparison counts as stuck
FLUSH_S = 15.0  # log lines and events are written in batches
MOST_ATTEMPTS = 4  # flow runs that may be needed after one kill
REPLAY_SPEED = "8"
# what a clock decides, or what names a moment or a place
CLOCKED = {
    "step_time_s",
    "step_cpu_time_s",
    "seconds",
    "time",
    "line",
    "offset",
    "tflops_per_device",
    "tokens_per_s_per_device",
}
STEP_LINE = re.compile(rb"completed step: (\d+),")
SUFFIX = re.compile("-[0-9a-f]{3}$")  # with which Prefect tells task runs of one name apart
COMMIT_LINE = re.compile(rb"Finished saving checkpoint \(finalized tmp dir\) to `[^`]*/(\d+)`")


class Place:
    """A local Prefect in a folder of its own, and the comparisons that it runs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state, self.out = folder, folder / "state", folder / "out"
        self.tree, self.port = folder / "tree", free_port()
        self.api = f"http://127.0.0.1:{self.port}/api"
        for name in COPIED:
            shutil.copytree(ROOT / name, self.tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", self.tree)
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")}
        self.environment = kept | {
            "MAXVIEW_CACHE": str(folder / "cache"),
            "MAXVIEW_REPLAY": str(folder / "stored"),
            "MAXVIEW_REPLAY_SPEED": REPLAY_SPEED,
            "PREFECT_WORKER_QUERY_SECONDS": "2",  # less waiting for the worker to look
            "PYTHONPATH": str(self.tree),
        }

    def up(self) -> None:
        """Bring up what is not up."""
        self._maxview("up", "--state", str(self.state), "--out", str(self.out), "--port", str(self.port))

    def down(self) -> None:
        """End worker and server."""
        self._maxview("down", "--state", str(self.state))

    def _maxview(self, *words: str) -> None:
        argv = [sys.executable, "-m", "flows.cli", *words]
        done = subprocess.run(argv, cwd=self.tree, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"maxview {words[0]}: {done.stdout}{done.stderr}")

    def ask(self, path: str, **content: Any) -> Any:
        """An answer of the server's; waits for one that is being brought back."""
        for attempt in range(60):
            try:  # a server on a busy machine also answers 503: its database is locked
                reply = httpx.post(f"{self.api}{path}", timeout=30, **content) if content else httpx.get(
                    f"{self.api}{path}", timeout=30
                )  # fmt: skip
                reply.raise_for_status()
                return reply.json()
            except (httpx.TransportError, httpx.HTTPStatusError) as error:
                if attempt == 59 or (isinstance(error, httpx.HTTPStatusError) and error.response.status_code < 500):
                    raise
                time.sleep(1)
        raise AssertionError("unreachable")

    def submit(self, target: str, speed: str = REPLAY_SPEED) -> str:
        """Have the worker run the comparison; the flow run's id."""
        deployment = self.ask("/deployments/name/compare/linen-vs-nnx")["id"]
        parameters = {"target": target, "overrides": list(SETTINGS)}
        wanted = {
            "parameters": parameters,
            "state": {"type": "SCHEDULED"},
            "idempotency_key": uuid4().hex,  # asked twice, it is still one run
            "job_variables": {"env": {"MAXVIEW_REPLAY_SPEED": speed}},
        }
        created: str = self.ask(f"/deployments/{deployment}/create_flow_run", json=wanted)["id"]
        return created

    def state_of(self, flow_run: str) -> dict[str, Any]:
        """The flow run's state."""
        state: dict[str, Any] = self.ask(f"/flow_runs/{flow_run}")["state"]
        return state

    def kept(self, name: str) -> Kept:
        """The server or the worker."""
        return Kept.model_validate_json((self.state / f"{name}.json").read_text())

    def flows(self) -> list[psutil.Process]:
        """The processes of flow runs, which outlive a worker that is killed."""
        return [process for process, words in self._processes() if "flow-run" in words or "prefect.engine" in words]

    def trainers(self) -> list[psutil.Process]:
        """The commands that supervisors run at the moment."""
        found = []
        for process, words in self._processes():
            if any(word.endswith("/supervise.py") for word in words):
                with suppress(psutil.NoSuchProcess):
                    found += [child for child in process.children() if child.name() != GUARD.decode()]
        return found

    def jobs(self) -> list[psutil.Process]:
        """Every process of every run."""
        return [process for process, words in self._processes() if any(str(self.out) in word for word in words)]

    def _processes(self) -> Iterator[tuple[psutil.Process, list[str]]]:
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied, OSError):
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                words = process.cmdline()
                ours = any(str(self.out) in word for word in words)  # a job: it has an environment of its own
                if ours or process.environ().get("PYTHONPATH") == str(self.tree):
                    yield process, words

    def kill(self, kind: str) -> float | None:
        """SIGKILL to one of a kind; the moment, or None if there is none."""
        if kind == "server":
            victims = session_of(self.kept("server"))
        elif kind == "worker":
            victims = [psutil.Process(self.kept("worker").pid)]
        else:
            victims = self.flows() if kind == "flow" else self.trainers()
        moment = None
        for victim in victims:
            with suppress(psutil.NoSuchProcess):
                victim.kill()
                moment = time.time()
        return moment


@dataclass
class Trial:
    """One kill: when, what, and what came of it."""

    number: int
    kind: str
    target: str
    moment: float = 0.0  # seconds after the flow run was asked for
    phase: str = ""
    states: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    starts: int = 0
    repeated: int = 0
    seconds: float = 0.0
    verdict_s: float | None = None


def canonical(out: Path) -> dict[str, Any]:
    """Everything that a comparison recorded and that neither a clock nor a path decides."""
    found: dict[str, Any] = {}
    for directory in Store(out).runs():
        record = directory.read_record()
        if record is not None:
            found[record.arm] = canonical_run(record)
    for path in out.glob("comparisons/*/*/*/comparison.json"):
        record = json.loads(path.read_text())
        found["verdict"] = {
            "floors": {floor["name"]: floor["holds"] for floor in record["floors"]},
            "rows": {
                row["metric"]: (row["baseline"], row["candidate"], row["verdict"])
                for row in record["rows"]
                if row["metric"] in ("final_loss", "parameters", "checkpoints", "loss")
            },
            "died": [side for side in ("baseline", "candidate") if record[side]["cause_of_death"]],
            "blocked": [finding["kind"] for finding in record["findings"] if finding["effect"] == "blocks"],
        }
    return found


def canonical_run(record: RunRecord) -> dict[str, Any]:
    """The values of one run: of a step that was repeated, the last."""
    printed = {row["step"]: row["loss"] for row in record.reading.steps.iter_rows(named=True)}
    rows = [] if record.metrics is None else record.metrics.rows(named=True)
    metrics = {row["step"]: {key: row[key] for key in sorted(row.keys() - CLOCKED)} for row in rows}
    state = record.program.get("state") or {}
    return {
        "exit": record.reading.exit_code,
        "printed": printed,
        "metrics": metrics,
        "state": state,
        "first weights": record.program.get("initial_state"),
        "program": record.program.get("program_hash"),
        "proofs": {proof.step: (proof.ok, proof.tree_digest, proof.arrays) for proof in record.proofs},
    }


def differences(found: dict[str, Any], reference: dict[str, Any], where: str = "") -> Iterator[str]:
    """Where two canonical records differ. A resumed run's log begins at its checkpoint: what it prints must agree."""
    if isinstance(found, dict) and isinstance(reference, dict):
        for key in sorted(found.keys() | reference.keys(), key=str):
            place = f"{where}/{key}"
            if key not in found:
                if not (place.split("/")[-2] == "printed" and found and key < min(found)):
                    yield f"{place} lacks"
            elif key not in reference:
                yield f"{place} is new"
            else:
                yield from differences(found[key], reference[key], place)
    elif found != reference:
        yield f"{where}: {found!r:.60} for {reference!r:.60}"


def attempts_of(run: Path) -> list[bytes]:
    """The logs of a run's attempts, in order."""
    logs = sorted(run.glob("log.[0-9]*.txt"), key=lambda path: int(path.name.split(".")[1]))
    return [path.read_bytes() for path in [*logs, run / "log.txt"] if path.exists()]


def look_at_attempts(run: Path, *, resumes: bool) -> tuple[int, int, list[str]]:
    """How often a run's trainer was started, how many steps it did again, and what of that should not be."""
    problems, starts, repeated, done, last, ended = [], 0, 0, -1, -1, False
    for text in attempts_of(run):
        starts += text.count(b"XPK Start:")
        if ended:
            problems.append(f"{run.name} was started again after it had ended well")
        steps = [int(match[1]) for match in STEP_LINE.finditer(text)]
        if steps and resumes and steps[0] <= done:
            again = done - steps[0] + 1
            repeated += again
            if steps[0] < last + 1:
                problems.append(f"{run.name} began at step {steps[0]} though step {last} was committed")
        done = max([done, *steps])
        last = max([last, *(int(match[1]) for match in COMMIT_LINE.finditer(text))])
        ended = text.endswith(b"EXIT_CODE=0\n")
    return starts, repeated, problems


def wait_until(condition: Callable[[], Any], seconds: float, pause: float = 0.1) -> Any:
    """What the condition gave once it is true; None if it was not in that time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(pause)
    return None


def finish(place: Place, flow_run: str, seconds: float = PATIENCE_S) -> str:
    """The end of a flow run, or where it is stuck."""

    def end() -> str | None:
        state = place.state_of(flow_run)
        return f"{state['type']} {state['name']}" if state["type"] in FINAL else None

    ended = wait_until(end, seconds, 0.5)
    if ended is not None:
        return str(ended)
    state = place.state_of(flow_run)
    return f"stuck in {state['type']} {state['name']}"


def run_trial(place: Place, trial: Trial, duration: float, share: float, reference: dict[str, Any]) -> None:
    """One comparison with one kill in it."""
    began = time.monotonic()
    flow_run = place.submit(trial.target)
    time.sleep(share * duration)
    killed: float | None = None
    while killed is None:
        state = place.state_of(flow_run) if trial.kind != "server" else {"type": "?", "name": "?"}
        if state["type"] in FINAL:
            break
        killed = place.kill(trial.kind)
        trial.phase = phase_of(place.out)
        if killed is None:
            time.sleep(0.02)
    trial.moment = time.monotonic() - began
    if killed is None:
        trial.problems.append("there was nothing left to kill")
    if trial.kind in ("server", "worker"):
        place.up()
    if trial.kind == "trainer" and killed is not None:
        trial.verdict_s = time_to_cause(place, killed)
    trial.states.append(finish(place, flow_run))
    while not finished_well(place.out) and len(trial.states) < MOST_ATTEMPTS:
        flow_run = place.submit(trial.target)
        trial.states.append(finish(place, flow_run))
    trial.seconds = time.monotonic() - began
    trial.problems += [state for state in trial.states if state.startswith("stuck")]
    trial.problems += differences(canonical(place.out), reference)
    for run in sorted(place.out.glob("runs/*")):
        starts, repeated, problems = look_at_attempts(run, resumes=trial.target != "replay")
        trial.starts += starts
        trial.repeated += repeated
        trial.problems += problems
    if wait_until(lambda: not place.jobs(), 10) is None:
        left = [" ".join(process.cmdline())[:100] for process in place.jobs()]
        trial.problems.append(f"left running: {left}")
        for process in place.jobs():
            process.kill()
    place.out.rename(place.folder / f"trial-{trial.number:02}")


def phase_of(out: Path) -> str:
    """What the comparison was at."""
    done = {path.parent.name.split("-")[1] for path in out.glob("runs/*/record.json")}
    begun = {path.parent.name.split("-")[1] for path in out.glob("runs/*/log.txt")}
    if list(out.glob("comparisons/*/*/*/index.html")):
        return "published"
    return f"in {', '.join(sorted(begun - done))}" if begun - done else f"after {len(done)} runs"


def finished_well(out: Path) -> bool:
    """Whether both runs have a record of an end with 0, and a page was made of them."""
    records = [directory.read_record() for directory in Store(out).runs()]
    ended = sum(record is not None and record.reading.exit_code == 0 for record in records)
    return ended == 2 and bool(list(out.glob("comparisons/*/*/*/index.html")))


def time_to_cause(place: Place, killed: float) -> float | None:
    """Seconds from a trainer's death to the record of its run, which names the cause, and for the second arm's to the
    comparison's."""

    def told() -> float | None:
        for directory in Store(place.out).runs():
            record = directory.read_record()
            if record is not None and record.reading.error is not None and directory.record.stat().st_mtime > killed:
                return directory.record.stat().st_mtime
        return None

    moment = wait_until(told, 60, 0.05)
    if moment is None:
        return None
    second = len(list(place.out.glob("runs/*/record.json"))) == 2
    pages = lambda: list(place.out.glob("comparisons/*/*/*/comparison.json"))  # noqa: E731
    if second and (found := wait_until(pages, 30, 0.05)):
        moment = found[0].stat().st_mtime
    return float(moment) - killed


def undisturbed(place: Place, target: str) -> tuple[dict[str, Any], float, str]:
    """The reference of a target, how long its comparison took, and its flow run."""
    began = time.monotonic()
    flow_run = place.submit(target)
    end = finish(place, flow_run)
    took = time.monotonic() - began
    if not finished_well(place.out):
        raise RuntimeError(f"the undisturbed comparison on {target} ended {end}: {place.state_of(flow_run)['message']}")
    return canonical(place.out), took, flow_run


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
    end = finish(place, flow_run)
    lost = [] if end.startswith("COMPLETED") else [f"the flow run ended {end}: {place.state_of(flow_run)['message']}"]
    lost += differences(canonical(place.out), reference)
    time.sleep(FLUSH_S)
    told = told_by_server(place, flow_run)
    lost += [f"{what}: {told[what]} for {usual[what]}" for what in usual if told[what] != usual[what]]
    print(f"server gone for {seconds:g} s: {end}; {told['step lines']} step lines, {sum(told['tasks'].values())} task "
          f"runs, {len(told['artifacts'])} artifacts; lost: {lost or 'nothing'}", flush=True)  # fmt: skip
    return lost


def report(trials: list[Trial]) -> None:
    """The totals."""
    bad = [trial for trial in trials if trial.problems]
    kinds = Counter(trial.kind for trial in trials)
    print(f"kills {len(trials)} ({', '.join(f'{kind} {kinds[kind]}' for kind in KINDS if kinds[kind])}), "
          f"with problems {len(bad)}")  # fmt: skip
    starts = Counter(trial.starts for trial in trials)
    print(f"trainers started per comparison of 2 runs: {dict(sorted(starts.items()))}; "
          f"steps done again after the last checkpoint: {sum(trial.repeated for trial in trials)}")  # fmt: skip
    times = [trial.verdict_s for trial in trials if trial.verdict_s is not None]
    if times:
        print(f"from a trainer's death to the record naming its cause: median {statistics.median(times):.2f} s, "
              f"longest {max(times):.2f} s of {len(times)}")  # fmt: skip


def main() -> int:
    """Print every kill and the totals; 0 if nothing was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trained", type=int, default=10, help="kills that fall into real trainings; others: replayed")
    parser.add_argument("--outage", type=float, default=60.0, help="seconds without a server; 0: none")
    parser.add_argument("--only", choices=KINDS, action="append", help="kill nothing else")
    parser.add_argument("--keep", action="store_true", help="leave the folder")
    arguments = parser.parse_args()
    print(describe_machine(("jax", "prefect")), f"seed {arguments.seed}", sep="\n", flush=True)
    drawn = random.Random(arguments.seed)
    folder = Path(tempfile.mkdtemp(prefix="maxview-chaos-"))
    place = Place(folder)
    trials: list[Trial] = []
    lost: list[str] = []
    try:
        place.up()
        references, durations = {}, {}
        references["cpu"], durations["cpu"], _ = undisturbed(place, "cpu")
        place.out.rename(folder / "stored")
        references["replay"], durations["replay"], flow_run = undisturbed(place, "replay")
        time.sleep(FLUSH_S)
        usual = told_by_server(place, flow_run)
        place.out.rename(folder / "replayed")
        print(f"undisturbed: trained {durations['cpu']:.1f} s, replayed {durations['replay']:.1f} s", flush=True)
        if arguments.outage:
            lost = outage(place, arguments.outage, references["replay"], usual, "0.3")
            place.out.rename(folder / "outage")
        for number in range(arguments.kills):
            kind = (arguments.only or KINDS)[number % len(arguments.only or KINDS)]
            target = "cpu" if number * arguments.trained // arguments.kills != (
                (number + 1) * arguments.trained // arguments.kills
            ) else "replay"  # fmt: skip
            trial = Trial(number=number, kind=kind, target=target)
            run_trial(place, trial, durations[target], drawn.random(), references[target])
            trials.append(trial)
            print(f"{number:3} {kind:8} {target:7} at {trial.moment:5.1f} s {trial.phase:14} {' → '.join(trial.states)}"
                  f"  {trial.starts} starts, {trial.repeated} steps again, {trial.seconds:.0f} s"
                  f"{f', cause after {trial.verdict_s:.2f} s' if trial.verdict_s is not None else ''}"
                  f"  {'; '.join(trial.problems) or 'ok'}", flush=True)  # fmt: skip
        report(trials)
    finally:
        place.down()
        if not arguments.keep:
            shutil.rmtree(folder)
        else:
            print(f"kept in {folder}")
    return 1 if lost or any(trial.problems for trial in trials) else 0


if __name__ == "__main__":
    sys.exit(main())
