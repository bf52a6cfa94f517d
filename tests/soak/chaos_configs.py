"""Tries every config key with nonsensical values, as `maxview compare --target cpu` would, up to the launch.

    uv run python -m tests.soak.chaos_configs [--target cpu] [--train] [--part 1/4]

Each value must be refused with a message or give a plan; anything else is a traceback. `--train` trains every distinct
planned config in this process, for two steps with checkpoints: each must end with exit code 0 or a non-finite loss.
Any other end means that a config was launched although it cannot run. `--part 1/4` tests every fourth key.

It is kept cheap without changing results. The config without a bad value is trained first, and its accesses to keys are
recorded: a config that differs only in unread keys is the same training and is skipped. Equal programs are compiled
once, without LLVM's expensive passes. Sequences are short unless the tested key influences a step's memory.
"""

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from benchmarks.machine import describe_machine
from configs.load import KEYS
from configs.schema import PLACE_KEYS, TrainConfig
from tasks.records.plan import RunPlan
from tasks.resolve.plans import Request, resolve

VALUES = (
    "", "null", "true", "false", "0", "-1", "1", "2", "3", "7", "16", "1000000000", "1000000000000",
    "9223372036854775808", "0.5", "-0.5", "1e-300", "1e300", ".nan", ".inf", "-.inf", "bogus", "[1, 2]", "{a: 1}",
)  # fmt: skip
STEPS = 2
LENGTH = 32  # tokens of a short sequence
SIZES = (
    "per_device_batch_size", "max_target_length", "gradient_accumulation_steps", "vocab_size", "head_dim",
    "base_emb_dim", "base_mlp_dim", "base_moe_mlp_dim", "base_num_decoder_layers", "base_num_query_heads",
    "base_num_kv_heads", "num_experts", "shared_experts", "remat_policy", "attention", "dtype", "weight_dtype",
)  # fmt: skip
CHEAP = {  # settings of the machine, not of the config
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "ABSL_LOGGING_STDERRTHRESHOLD": "3",
}
WELL = ("exit 0", "not finite")
reads: set[str] = set()  # keys that have been read since it was cleared


class Watched(TrainConfig):
    """A config that notes which of its keys are read."""

    def __getattribute__(self, name: str) -> object:
        if name in KEYS:
            reads.add(name)
        return super().__getattribute__(name)


def try_value(key: str, value: str, target: str) -> RunPlan | str:
    """Return the first arm's plan, or the message of its refusal. Raises any other exception."""
    try:
        wanted = Request(comparison="linen-vs-nnx", cases=("01_base",), target=target, overrides=(f"{key}={value}",))
        return resolve(wanted, Path(tempfile.gettempdir()) / "maxview-chaos-configs")[0]
    except ValueError as error:  # the command line turns it into a message and exit status 2
        return str(error)


def train(key: str, plan: RunPlan) -> str:
    """Train a plan's config for a few steps and return its end as text; fills `reads` with the keys it read."""
    from model.train.loop import NonFiniteLoss
    from model.train.loop import train as run
    from model.train.stop import StopSignal

    with tempfile.TemporaryDirectory() as folder:
        changed: dict[str, object] = {"base_output_directory": folder}
        resumes_after = plan.config["resume_after_step"]
        assert isinstance(resumes_after, int)
        changed["steps"] = min(int(str(plan.config["steps"])), max(STEPS, resumes_after + 2))
        if plan.config["learning_rate_schedule_steps"] == -1:  # keep the schedule's length
            changed["learning_rate_schedule_steps"] = plan.config["steps"]
        if key not in SIZES:
            changed["max_target_length"] = LENGTH
        config = Watched(**(plan.config | changed))
        reads.clear()
        try:
            with redirect_stdout(StringIO()):
                return f"exit {run(config, StopSignal())}"
        except NonFiniteLoss:
            return "not finite"
        except BaseException as error:
            return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]


def train_all(plans: list[tuple[str, str, RunPlan]], usual: RunPlan) -> Counter[str]:
    """Train all plans, each with its key and override, and count their ends."""
    ends = Counter([train("", usual)])
    assert ends["exit 0"], f"the config without a bad value ended with {ends}"
    read = reads.copy()
    for key, word, plan in plans:
        differs = {name for name, value in plan.config.items() if usual.config[name] != value} - set(PLACE_KEYS)
        if not differs & read:
            ends["the same training"] += 1
            continue
        began = time.monotonic()
        end = train(key, plan)
        ends[end.partition(":")[0]] += 1
        print(f"{word}: {'' if end in WELL else 'launched and ended with '}{end} ({time.monotonic() - began:.0f} s)",
              flush=True)  # fmt: skip
    return ends


def main() -> int:
    """Print the outcomes; return 0 if every value was refused with a message or can be trained."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--part", default="1/1")
    arguments = parser.parse_args()
    part, parts = map(int, arguments.part.split("/"))
    keys = list(KEYS)[part - 1 :: parts]
    print(describe_machine(("jax", "pydantic")), flush=True)
    counts: Counter[str] = Counter()
    usual = try_value("steps", "20", arguments.target)
    assert isinstance(usual, RunPlan)
    plans: dict[str, tuple[str, str, RunPlan]] = {}
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
                plans.setdefault(found.identity, (key, word, found))
            else:
                counts["refused"] += 1
    tried = f"{len(keys)} of {len(KEYS)} keys x {len(VALUES)} values"
    print(f"{tried}: {dict(counts)}; different configs: {len(plans)}", flush=True)
    ends: Counter[str] = Counter()
    if arguments.train:
        with tempfile.TemporaryDirectory() as compiled:
            os.environ.update(usual.environment | CHEAP | {"JAX_COMPILATION_CACHE_DIR": compiled})
            ends = train_all(list(plans.values()), usual)
        print(f"trained for {STEPS} steps: {dict(ends)}")
    return 1 if counts["traceback"] or ends.keys() - {*WELL, "the same training"} else 0


if __name__ == "__main__":
    sys.exit(main())
