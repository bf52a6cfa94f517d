"""Tries every config key with values that make no sense, as `maxview compare --target cpu` would, up to the launch.

    uv run python -m benchmarks.chaos_configs [--target cpu] [--train 40] [--seed 0] [--part 1/4]

A value is refused with a message, or the plan stands; whatever else happens is a traceback. `--train N` trains N of
the different configs that stand, drawn at random, for two steps in this process: each must end well, or with the loss
that its learning makes of it. One that ends otherwise was launched though it cannot run. `--part 1/4` takes every
fourth key only, from the first on.
"""

import argparse
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from benchmarks.machine import describe_machine
from configs.load import KEYS
from configs.schema import TrainConfig
from tasks.records import RunPlan
from tasks.resolve.plans import Request, resolve

VALUES = (
    "", "null", "true", "false", "0", "-1", "1", "2", "3", "7", "16", "1000000000", "1000000000000",
    "9223372036854775808", "0.5", "-0.5", "1e-300", "1e300", ".nan", ".inf", "-.inf", "bogus", "[1, 2]", "{a: 1}",
)  # fmt: skip
STEPS = 2


def try_value(key: str, value: str, target: str) -> RunPlan | str:
    """The plan of the first arm, or what it was refused for. Raises whatever else happens."""
    try:
        wanted = Request(comparison="linen-vs-nnx", cases=("01_base",), target=target, overrides=(f"{key}={value}",))
        return resolve(wanted, Path(tempfile.gettempdir()) / "maxview-chaos-configs")[0]
    except ValueError as error:  # what the command line turns into a message and exit status 2
        return str(error)


def train(plan: RunPlan) -> str:
    """How a short training of a plan's config ends."""
    from model.stop import StopSignal
    from model.train import NonFiniteLoss
    from model.train import train as run

    with tempfile.TemporaryDirectory() as folder:
        place = {"base_output_directory": folder, "log_config": False, "enable_checkpointing": False}
        steps = min(int(plan.config["steps"]), STEPS)
        if plan.config["learning_rate_schedule_steps"] == -1:  # of the schedule the length stays what it was
            place["learning_rate_schedule_steps"] = plan.config["steps"]
        config = TrainConfig(**(plan.config | place | {"steps": steps}))
        try:
            return f"exit {run(config, StopSignal())}"
        except NonFiniteLoss:
            return "not finite"
        except BaseException as error:
            return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]


def main() -> int:
    """Print what came of the values; 0 if every one was refused in a line or can be trained."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--train", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", default="1/1")
    arguments = parser.parse_args()
    part, parts = map(int, arguments.part.split("/"))
    keys = list(KEYS)[part - 1 :: parts]
    print(describe_machine(("jax", "pydantic")), flush=True)
    counts: Counter[str] = Counter()
    plans: dict[str, tuple[str, RunPlan]] = {}
    for key in keys:
        for value in VALUES:
            word = f"{key}={value}"
            try:
                found = try_value(key, value, arguments.target)
            except Exception:
                counts["traceback"] += 1
                print(f"{word}: {traceback.format_exc(limit=-2)}")
                continue
            if isinstance(found, RunPlan):
                counts["planned"] += 1
                plans.setdefault(found.identity, (word, found))
            else:
                counts["refused"] += 1
    tried = f"{len(keys)} of {len(KEYS)} keys x {len(VALUES)} values"
    print(f"{tried}: {dict(counts)}; different configs: {len(plans)}", flush=True)
    ends: Counter[str] = Counter()
    drawn = random.Random(arguments.seed).sample(list(plans.values()), min(arguments.train, len(plans)))
    for word, plan in drawn:
        began = time.monotonic()
        end = train(plan)
        ends[end.partition(":")[0]] += 1
        if end not in ("exit 0", "not finite"):
            print(f"{word}: launched and ended with {end} ({time.monotonic() - began:.0f} s)", flush=True)
    if drawn:
        print(f"trained {len(drawn)} of them for {STEPS} steps: {dict(ends)}")
    return 1 if counts["traceback"] or ends.keys() - {"exit 0", "not finite"} else 0


if __name__ == "__main__":
    sys.exit(main())
