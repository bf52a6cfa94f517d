"""Kills flow, worker, server and trainer with SIGKILL at random moments, and shows the outcome of the comparison.

    uv run python -m tests.soak.chaos [--kills 60] [--seed 0] [--trained 16] [--outage 60] [--only server]
        [--interrupts 100] [--folder DIR [--minutes 7]]

Runs one `maxview up` in a temporary folder, with a copy of the packages. The reference is the record of an undisturbed
comparison of two tiny trainings, and of one that replays their logs. Each kill hits its own comparison, trained or
replayed, at a random moment: before the first step (half of them), in either run, between a committed checkpoint and
the end of the training, or during the verdict. In a trained comparison the first run already exists and must not be
trained again. A kill that comes too late is drawn again. The program restarts the killed process as a user would:
server and worker as `maxview up` does, and the same run after the loss of a flow, trainer or supervisor; a command
restarts its own embedded server. Afterwards every canonical value (losses and norms of each step, digests of weights
and checkpoints, proofs, floors, rows, verdict) must equal the reference's, no run may have been trained again after
its successful end or from before its last committed checkpoint, and after half a minute no process may be left.

`--outage` stops the server for that many seconds in the middle of a flow: every task run, artifact and log line must
exist in the end. `--interrupts` presses Ctrl-C that many times, once or twice, in separate commands whose server is
running, killed or stopped: each must end with 130 and a line (within a second after a second Ctrl-C), and leave no
process and no unreadable record.

`--folder` keeps everything there, and the same command continues from it: finished parts are read from `done/`.
`--minutes` starts nothing new after that time, so that the table can be made in pieces.
"""

import argparse
import json
import math
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import describe_machine
from tests.soak.chaos.compare_stores import canonical
from tests.soak.chaos.interrupts import run_interrupts
from tests.soak.chaos.kills import JOBS, KINDS, Trial, run_trial, undisturbed
from tests.soak.chaos.outage import FLUSH_S, outage, told_by_server
from tests.soak.chaos.place import FlowRun, Forked, Place

REFERENCES = {"cpu": "stored", "replay": "replayed"}


def plan_trials(kills: int, trained: int, kinds: tuple[str, ...]) -> list[Trial]:
    """Plan trials of all kinds in turn, with trainings spread over them, half of them for trainers after a step."""
    trials = [
        Trial(number=number, kind=kinds[number % len(kinds)], target="replay", early=number // len(kinds) % 2 == 0)
        for number in range(kills)
    ]
    wanted = sorted((trial for trial in trials if trial.kind in JOBS), key=lambda trial: trial.early)
    others = [trial for trial in trials if trial.kind not in JOBS]
    own = wanted[: trained // 2] if others else wanted[:trained]
    rest = trained - len(own)
    for trial in [*own, *(others[index * len(others) // rest] for index in range(min(rest, len(others))))]:
        trial.target = "cpu"
    return trials


def show(trial: Trial) -> str:
    """A trial in one line."""
    return (
        f"{trial.number:3} {trial.kind:10} {trial.target:7} {trial.moment:27} {trial.phase:22} "
        f"{' → '.join(trial.states)}  {trial.starts} starts, {trial.resumed} resumed, {trial.repeated} steps again, "
        f"{trial.missed} too late before, {trial.seconds:.0f} s"
        f"{f', cause after {trial.verdict_s:.2f} s' if trial.verdict_s is not None else ''}  "
        f"{'; '.join(trial.problems[:6]) or 'ok'}"
    )


def report(trials: list[Trial], unfired: int) -> None:
    """The totals."""
    kinds = Counter(trial.kind for trial in trials)
    trained = Counter(trial.kind for trial in trials if trial.target == "cpu")
    fired = ", ".join(f"{kind} {kinds[kind]} ({trained[kind]} trained)" for kind in KINDS if kinds[kind])
    print(f"kills fired: {len(trials)}: {fired}; too late and drawn again: {sum(trial.missed for trial in trials)}; "
          f"given up: {unfired}")  # fmt: skip
    early = Counter(trial.kind for trial in trials if "no step" in trial.phase or trial.phase == "after 0 runs")
    print(f"before the first step of a run: {', '.join(f'{kind} {early[kind]}' for kind in KINDS if kinds[kind])}")
    print(f"same records: {sum(not (t.different or t.stuck) for t in trials)}; trained twice: "
          f"{sum(bool(t.twice) for t in trials)}; processes left: {sum(len(t.left) for t in trials)}")  # fmt: skip
    starts = Counter(trial.starts for trial in trials)
    print(f"trainers started per comparison of 2 runs: {dict(sorted(starts.items()))}; went on from a checkpoint: "
          f"{sum(trial.resumed for trial in trials)}; steps done again after the last checkpoint: "
          f"{sum(trial.repeated for trial in trials)}")  # fmt: skip
    times = [trial.verdict_s for trial in trials if trial.verdict_s is not None]
    if times:
        print(f"from a trainer's death to the record naming its cause: median {statistics.median(times):.2f} s, "
              f"longest {max(times):.2f} s of {len(times)}")  # fmt: skip


@dataclass(frozen=True)
class Done:
    """The finished parts in a folder: one file per trial and Ctrl-C, so that a stop loses nothing."""

    folder: Path
    until: float  # monotonic seconds after which nothing new is started

    def read(self, name: str) -> Any:
        """Return the stored result, or None; raises Paused if it is missing and the time is up."""
        path = self.folder / f"{name}.json"
        if path.exists():
            return json.loads(path.read_text())
        if time.monotonic() > self.until:
            raise Paused
        return None

    def note(self, name: str, what: Any) -> None:
        """Store a result."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / f"{name}.json").write_text(json.dumps(what))


class Paused(Exception):
    """The time of this session is over."""


def find_references(place: Place, done: Done) -> tuple[dict[str, Any], dict[str, dict[str, float]], str]:
    """Return the records of undisturbed comparisons and the seconds of their parts, by target; and a flow run's id."""
    lengths: dict[str, dict[str, float]] = {}
    flow_run = ""
    kinds: list[tuple[str, str, Callable[[str], FlowRun | Forked], str]] = [
        ("cpu", "cpu", place.fork, "stored"),
        ("replay", "replay", place.fork, "replayed"),
        ("replay by a worker", "replay", place.submit, "replayed-by-a-worker"),
    ]
    for name, target, ask, folder in kinds:
        noted = done.read(f"undisturbed {name}")
        if noted is None:
            parts, asked = undisturbed(place, target, ask)
            place.out.rename(place.folder / folder)
            noted = {"lengths": parts, "flow_run": asked.id if isinstance(asked, FlowRun) else ""}
            done.note(f"undisturbed {name}", noted)
            print(f"undisturbed, {name}: {', '.join(f'{part} {s:.1f} s' for part, s in parts.items())}", flush=True)
        lengths[name], flow_run = noted["lengths"], noted["flow_run"]
    return {name: canonical(place.folder / to) for name, to in REFERENCES.items()}, lengths, flow_run


def run_trials(
    place: Place, done: Done, planned: list[Trial], seed: int, lengths: dict[str, Any], references: dict[str, Any]
) -> tuple[list[Trial], int]:
    """Return the trials whose kill hit, and the number of trials whose kills all came too late."""
    trials, unfired = [], 0
    for trial in planned:
        name = f"kill {trial.number}"
        noted = done.read(name)
        if noted is None:
            drawn = random.Random(f"{seed} {trial.number}")  # each trial can be repeated alone
            slower = trial.target == "replay" and trial.kind in ("worker", "embedded")  # nothing is loaded before
            length = lengths["replay by a worker" if slower else trial.target]
            fired = run_trial(place, trial, drawn, length, references[trial.target])
            print(show(trial) if fired else f"{name} {trial.kind} {trial.target}: too late every time", flush=True)
            done.note(name, asdict(trial) if fired else {})
        elif noted:
            trial = Trial(**noted)
        if noted == {} or not trial.states:
            unfired += 1
        else:
            trials.append(trial)
    return trials, unfired


def main() -> int:
    """Print every kill and the totals; 0 if nothing was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trained", type=int, default=16, help="kills that fall into real trainings; others: replayed")
    parser.add_argument("--outage", type=float, default=60.0, help="seconds without a server; 0: none")
    parser.add_argument("--interrupts", type=int, default=100)
    parser.add_argument("--only", choices=KINDS, action="append", help="kill nothing else")
    parser.add_argument("--folder", type=Path, help="where everything stays; the same command continues from it")
    parser.add_argument("--minutes", type=float, default=math.inf)
    arguments = parser.parse_args()
    print(describe_machine(("jax", "prefect")), f"seed {arguments.seed}", sep="\n", flush=True)
    folder = (arguments.folder or Path(tempfile.mkdtemp(prefix="maxview-chaos-"))).resolve()
    done = Done(folder / "done", time.monotonic() + 60 * arguments.minutes)
    place = Place(folder)
    try:
        place.up()
        place.make_home()
        references, lengths, flow_run = find_references(place, done)
        lost = done.read("outage") if arguments.outage else []
        if lost is None:
            time.sleep(FLUSH_S)
            lost = outage(place, arguments.outage, references["replay"], told_by_server(place, flow_run), "0.3")
            place.out.rename(folder / "outage")
            done.note("outage", lost)
        planned = plan_trials(arguments.kills, arguments.trained, tuple(arguments.only or KINDS))
        trials, unfired = run_trials(place, done, planned, arguments.seed, lengths, references)
        if planned:
            report(trials, unfired)
        lost += run_interrupts(place, arguments.interrupts, arguments.seed, lengths, done.read, done.note)
    except Paused:
        print("paused: repeat the same command to continue")
        return 3
    finally:
        place.down()
        if not arguments.folder:
            shutil.rmtree(folder)
    return 1 if lost or unfired or any(trial.problems for trial in trials) else 0


if __name__ == "__main__":
    sys.exit(main())
