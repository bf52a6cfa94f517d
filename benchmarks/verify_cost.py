"""What verifying a checkpoint costs the trainer that goes on beside it, on this machine's cores.

    python -m benchmarks.verify_cost [--runs 4] [--pairs 50] [--every 20]

Real trainings under real Prefect tasks, as `compare` runs them: launched, watched, verified. Of every two saves that
follow each other a coin says which one is verified as soon as it is committed; the other is left alone. The steps
between a verified save and the next one are divided by those of its neighbour: the median of these ratios is the cost,
with the bootstrap's interval. So nothing that changes more slowly than four saves can look like a cost. Beside it: the
processor time of flow and server from one commit to the next, with a proof and without.
"""

import argparse
import atexit
import json
import os
import random
import sys
import tempfile
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from benchmarks.machine import describe_machine
from tasks.resolve.plans import Request, resolve
from tasks.services.resting import make_place
from tasks.services.server import prefect_api
from tasks.store import Store, open_store

type Pairs = NDArray[np.float64]  # pair, (verified, left alone), (s/step, processor s/step, flow's and server's s)


def train(number: int, store: Store, arguments: argparse.Namespace, server: int) -> Pairs:
    """One training: what was measured from each save to the next one."""
    from prefect import flow

    from tasks.launch import job
    from tasks.records import CheckpointCommitted
    from tasks.steps import launch_step, verify_step, watch_step

    last = 2 * arguments.pairs * arguments.every
    wanted = Request(
        comparison="linen-vs-nnx",
        target="cpu",
        overrides=(f"steps={last + 2 * arguments.every + 1}", f"checkpoint_period={arguments.every}"),
        fresh=str(number),
    )
    plan = resolve(wanted, store.path)[number % 2]
    directory = store.run(plan.run_name)
    coin = random.Random(number)
    # step 0 compiles, and the last save ends the run: neither is in a pair
    firsts = range(arguments.every, last, 2 * arguments.every)
    chosen = {first + arguments.every * coin.randrange(2) for first in firsts}
    processes = [psutil.Process(pid) for pid in (os.getpid(), server)]
    spent: dict[int, float] = {}
    late = 0

    @flow(name=f"verify-cost-{number}")
    def run() -> None:
        nonlocal late
        launched = launch_step(plan, [plan], store)
        proofs: list[Any] = []
        for event in watch_step(launched):
            if not isinstance(event, CheckpointCommitted):
                continue
            late += sum(not proof.state.is_final() for proof in proofs[-1:])
            spent[event.step] = sum(time.user + time.system for time in (one.cpu_times() for one in processes))
            if event.step in chosen:
                path = job.find_checkpoint(launched, event.step)
                proofs.append(verify_step.submit(path, directory.manifests))
        assert all(proof.result().ok for proof in proofs)

    run()
    rows = [json.loads(line) for line in (directory.path / "metrics.jsonl").read_text().splitlines()]
    print(f"run {number}, {plan.arm}: {len(firsts)} pairs, {late} proofs went on after the next commit", flush=True)

    def measure(save: int) -> list[float]:
        between = rows[save + 1 : save + arguments.every]
        means = [float(np.mean([row[key] for row in between])) for key in ("step_time_s", "step_cpu_time_s")]
        return [*means, spent[save + arguments.every] - spent[save]]

    verified_first = [sorted((one, one + arguments.every), key=lambda save: save not in chosen) for one in firsts]
    return np.array([[measure(save) for save in pair] for pair in verified_first])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=50, help="of saves, in each run")
    parser.add_argument("--every", type=int, default=20, help="steps from save to save")
    arguments = parser.parse_args()
    print(describe_machine())
    folder = tempfile.TemporaryDirectory()
    os.environ |= {"PREFECT_HOME": f"{folder.name}/prefect", "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "ERROR"}
    place = make_place()
    # this process uses the server until it exits, and what was registered last is called first
    atexit.register(folder.cleanup)
    atexit.register(place.end)
    with prefect_api(sys.exit, lambda: None):
        server = place.find()
        assert server is not None
        measured = [
            train(number, open_store(f"{folder.name}/{number}"), arguments, server.pid)
            for number in range(arguments.runs)
        ]
    print_cost(np.concatenate(measured), arguments.every)


def print_cost(pairs: Pairs, every: int) -> None:
    """Medians over the pairs, with the bootstrap's interval of 95 %."""
    from scipy import stats  # type: ignore[import-untyped]

    verified, alone = np.moveaxis(pairs, 2, 0).transpose(2, 0, 1)
    for what, values, unit in (
        ("step time after a verified save, over the others", 100 * (verified[0] / alone[0] - 1), "%"),
        ("processor time of these steps, over the others", 100 * (verified[1] / alone[1] - 1), "%"),
        ("processor time of flow and server per proof", 1000 * (verified[2] - alone[2]), "ms"),
        ("the same, over the time between two saves", 100 * (verified[2] - alone[2]) / (every * alone[0]), "%"),
    ):
        interval = stats.bootstrap((values,), np.median, random_state=0).confidence_interval
        shown = f"{np.median(values):+.2f} {unit} ({interval.low:+.2f} … {interval.high:+.2f})"
        print(f"{what}: {shown}, {len(values)} pairs")
    wall_ms, processor_ms = 1000 * np.median(alone[:2], axis=1)
    print(f"a step left alone: {wall_ms:.1f} ms, {processor_ms:.1f} ms of processor time")


if __name__ == "__main__":
    main()
