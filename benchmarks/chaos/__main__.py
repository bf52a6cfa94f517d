"""Kills flow, worker, server and trainer with SIGKILL at random moments, and shows what became of the comparison.

    uv run python -m benchmarks.chaos [--kills 60] [--seed 0] [--trained 16] [--outage 60] [--only server]
        [--interrupts 20]

One `maxview up` in a temporary folder, with a copy of the packages. First a comparison of two tiny trainings is left
alone, and so is one that replays their logs: what they record is the reference. Then every kill falls into a comparison
of its own, trained or replayed, at a random moment: before the first step (half of them), in either run, between a
committed checkpoint and the end of its training, or on the way to the verdict. A kill that comes too late is drawn
again. What was killed is brought back the way a user would: `maxview up` again for server and worker, the same run
again where a flow, a trainer or its supervisor was lost; an embedded server its command brings back. Afterwards every
canonical value (losses and norms of each step, digests of weights and checkpoints, proofs, floors, rows, verdict) must
be the reference's, no run may have been trained again after it had ended well nor from further back than its last
committed checkpoint, and no job may be left.

`--outage` takes the server away for that many seconds in the middle of a flow: every task run, artifact and log line
must be there in the end. `--interrupts` presses Ctrl-C so many times, once or twice, in commands of their own, whose
server is well, killed or stopped: each must end with 130 and a line, and leave no process and no record that cannot be
read.
"""

import argparse
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.chaos.interrupts import run_interrupts
from benchmarks.chaos.kills import JOBS, KINDS, Trial, run_trial, undisturbed
from benchmarks.chaos.outage import FLUSH_S, outage, told_by_server
from benchmarks.chaos.place import Place
from benchmarks.machine import describe_machine


def plan_trials(kills: int, trained: int, kinds: tuple[str, ...]) -> list[Trial]:
    """The kinds take turns; trainings are spread over them, most of them for the trainers' kills."""
    trials = [
        Trial(number=number, kind=kinds[number % len(kinds)], target="replay", early=number // len(kinds) % 2 == 0)
        for number in range(kills)
    ]
    wanted = [trial for trial in trials if trial.kind in JOBS]
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
          f"{sum(bool(t.twice) for t in trials)}; jobs left: {sum(len(t.left) for t in trials)}")  # fmt: skip
    starts = Counter(trial.starts for trial in trials)
    print(f"trainers started per comparison of 2 runs: {dict(sorted(starts.items()))}; went on from a checkpoint: "
          f"{sum(trial.resumed for trial in trials)}; steps done again after the last checkpoint: "
          f"{sum(trial.repeated for trial in trials)}")  # fmt: skip
    times = [trial.verdict_s for trial in trials if trial.verdict_s is not None]
    if times:
        print(f"from a trainer's death to the record naming its cause: median {statistics.median(times):.2f} s, "
              f"longest {max(times):.2f} s of {len(times)}")  # fmt: skip


def main() -> int:
    """Print every kill and the totals; 0 if nothing was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trained", type=int, default=16, help="kills that fall into real trainings; others: replayed")
    parser.add_argument("--outage", type=float, default=60.0, help="seconds without a server; 0: none")
    parser.add_argument("--interrupts", type=int, default=20)
    parser.add_argument("--only", choices=KINDS, action="append", help="kill nothing else")
    parser.add_argument("--keep", action="store_true", help="leave the folder")
    arguments = parser.parse_args()
    print(describe_machine(("jax", "prefect")), f"seed {arguments.seed}", sep="\n", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="maxview-chaos-"))
    place = Place(folder)
    trials: list[Trial] = []
    lost: list[str] = []
    unfired = 0
    try:
        place.up()
        place.make_home()
        references, lengths = {}, {}
        references["cpu"], lengths["cpu"], _ = undisturbed(place, "cpu")
        place.out.rename(folder / "stored")
        references["replay"], lengths["replay"], flow_run = undisturbed(place, "replay")
        place.out.rename(folder / "replayed")
        for target, parts in lengths.items():
            print(f"undisturbed, {target}: {', '.join(f'{name} {s:.1f} s' for name, s in parts.items())}", flush=True)
        if arguments.outage:
            time.sleep(FLUSH_S)
            lost = outage(place, arguments.outage, references["replay"], told_by_server(place, flow_run.id), "0.3")
            place.out.rename(folder / "outage")
        lost += run_interrupts(place, arguments.interrupts, arguments.seed, sum(lengths["replay"].values()))
        for trial in plan_trials(arguments.kills, arguments.trained, tuple(arguments.only or KINDS)):
            drawn = random.Random(f"{arguments.seed} {trial.number}")  # one alone can be done again
            if not run_trial(place, trial, drawn, lengths[trial.target], references[trial.target]):
                unfired += 1
                print(f"{trial.number:3} {trial.kind:10} {trial.target:7} came too late every time", flush=True)
                continue
            trials.append(trial)
            print(show(trial), flush=True)
        report(trials, unfired)
    finally:
        place.down()
        if not arguments.keep:
            shutil.rmtree(folder)
        else:
            print(f"kept in {folder}")
    return 1 if lost or unfired or any(trial.problems for trial in trials) else 0


if __name__ == "__main__":
    sys.exit(main())
