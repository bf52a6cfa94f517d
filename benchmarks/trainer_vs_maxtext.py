"""Trains one small model with maxview's trainer and MaxText, alternately, and prints both figures and their ratio.

    python -m benchmarks.trainer_vs_maxtext --peer-python /path/to/venv/bin/python

The peer is a separate environment with MaxText 0.2.4, the last release with both Linen and NNX (`uv pip install
--resolution=lowest 'maxtext[tpu]==0.2.4'`, Python 3.12). Both also get $XLA_FLAGS: with `--xla_cpu_max_isa=AVX2
--xla_cpu_experimental_ynn_fusion_type=` no product uses instructions for bfloat16, as on a processor with AVX2 alone.
Exit status: 0 all targets met, 1 not all.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.machine import describe_machine

ROOT = Path(__file__).resolve().parent.parent

# One model, one batch, one optimizer, in the keys that both programs share.
SHARED = {
    "base_emb_dim": 256,
    "base_num_decoder_layers": 4,
    "base_num_query_heads": 4,
    "base_num_kv_heads": 4,
    "head_dim": 64,
    "base_mlp_dim": 1024,
    "vocab_size": 8192,
    "max_target_length": 512,
    "per_device_batch_size": 8,
    "dataset_type": "synthetic",
    "enable_checkpointing": "false",
    "hardware": "cpu",
    "attention": "dot_product",
    "log_config": "false",
    "weight_dtype": "float32",
    "enable_dropout": "false",
    "learning_rate": 3.0e-4,
}
NUMBERS = {"f32": {"dtype": "float32", "matmul_precision": "highest"}, "bf16": {"dtype": "bfloat16"}}
# an empty jax_cache_dir: otherwise MaxText would reuse compiled programs from ~/jax_cache, and only we would compile
PEER_ONLY = {"skip_jax_distributed_system": "true", "enable_tensorboard": "false", "jax_cache_dir": ""}
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=1",
    "DECOUPLE_GCLOUD": "TRUE",
}
STEP_LINE = re.compile(r"completed step: (\d+),")
# first step whose time counts: caches and allocators warm up in the steps before
STEADY_FROM = 3

FACTS = """
import importlib.metadata as m, importlib.util as u, json, platform
spec = u.find_spec("maxtext")
versions = {p: m.version(p) for p in ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint")}
versions["python"] = platform.python_version()
if spec:
    versions["maxtext"] = m.version("maxtext")
print(json.dumps({"versions": versions, "maxtext": spec and list(spec.submodule_search_locations)[0]}))
"""


@dataclass(frozen=True)
class Measured:
    """The figures of one run. Step times are the arrival times of log lines, for both trainers."""

    first_step_s: float
    first_step_cpu_s: float
    step_s: float
    step_cpu_s: float
    peak_rss_gib: float
    loss: float


@dataclass(frozen=True)
class Target:
    """A figure with its limit: the largest allowed ratio of ours to the peer's, or difference (ratio=False).

    A figure whose limit is None is only shown.
    """

    title: str
    unit: str
    limit: float | None
    ratio: bool = True


TARGETS = {
    "first_step_s": Target("time to first step", "s", 0.2),
    "first_step_cpu_s": Target("… of processor time", "s", None),
    "step_s": Target("step, median", "s", 0.5),
    "step_cpu_s": Target("… of processor time", "s", None),
    "peak_rss_gib": Target("peak memory", "GiB", 0.55),
    "loss": Target("loss at the last step", "nats", 0.02, ratio=False),
}


def read_facts(python: str) -> dict[str, object]:
    """Return the versions in an environment, and the folder of its MaxText."""
    found = subprocess.run([python, "-c", FACTS], capture_output=True, text=True, check=True)
    facts: dict[str, object] = json.loads(found.stdout)
    return facts


def our_argv(dialect: str, numbers: str, steps: int, folder: Path) -> tuple[list[str], Path]:
    """Return the command of our trainer, and the path of its metrics."""
    config = folder / "config.yml"
    keys = SHARED | NUMBERS[numbers] | {"steps": steps, "pure_nnx": str(dialect == "nnx").lower()}
    config.write_text("".join(f"{key}: {value}\n" for key, value in keys.items()), encoding="utf-8")
    words = ["run_name=ours", f"base_output_directory={folder}"]
    return [sys.executable, "-m", "model.train", str(config), *words], folder / "ours" / "metrics.jsonl"


def peer_argv(
    python: str, maxtext: str, dialect: str, numbers: str, steps: int, folder: Path
) -> tuple[list[str], Path]:
    """Return the command of MaxText, and the path of its metrics."""
    nnx = str(dialect == "nnx").lower()
    metrics = folder / "peer.jsonl"
    keys = SHARED | NUMBERS[numbers] | PEER_ONLY | {"steps": steps, "run_name": "peer", "metrics_file": metrics}
    keys |= {"base_output_directory": folder, "enable_nnx": nnx, "pure_nnx_decoder": nnx, "pure_nnx": nnx}
    words = [f"{key}={value}" for key, value in keys.items()]
    module = "maxtext.trainers.pre_train.train"
    return [python, "-m", module, str(Path(maxtext) / "configs" / "base.yml"), *words], metrics


def measure(argv: list[str], metrics: Path, loss_key: str, steps: int, log: Path) -> Measured:
    """Run one trainer to its end and time its step lines as they arrive."""
    arrivals: dict[int, float] = {}
    spent: dict[int, float] = {}  # step → CPU seconds, which hardly depend on other load
    started = time.monotonic()
    with log.open("w", encoding="utf-8") as copy:
        process = subprocess.Popen(
            argv,
            cwd=ROOT,
            env={**os.environ, **ENVIRONMENT, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        clock = psutil.Process(process.pid)
        for line in process.stdout:
            copy.write(line)
            if found := STEP_LINE.search(line):
                arrivals[int(found.group(1))] = time.monotonic() - started
                cpu = clock.cpu_times()
                spent[int(found.group(1))] = cpu.user + cpu.system
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode or len(arrivals) != steps:
        raise SystemExit(f"{argv[2]} ended with {process.returncode} after {len(arrivals)} steps: see {log}")
    last = json.loads(metrics.read_text(encoding="utf-8").splitlines()[-1])
    return Measured(
        first_step_s=arrivals[0],
        first_step_cpu_s=spent[0],
        step_s=statistics.median(arrivals[step] - arrivals[step - 1] for step in range(STEADY_FROM, steps)),
        step_cpu_s=statistics.median(spent[step] - spent[step - 1] for step in range(STEADY_FROM, steps)),
        peak_rss_gib=usage.ru_maxrss / 2**20,
        loss=float(last[loss_key]),
    )


def print_rows(variant: str, ours: Measured, peer: Measured) -> bool:
    """Print one line per figure; return whether all targets are met."""
    met = True
    for name, target in TARGETS.items():
        mine, theirs = getattr(ours, name), getattr(peer, name)
        compared = mine / theirs if target.ratio else abs(mine - theirs)
        sign = "×" if target.ratio else "apart"
        verdict = ""
        if target.limit is not None:
            met &= compared <= target.limit
            verdict = f"≤ {target.limit} {sign}: {'met' if compared <= target.limit else 'NOT MET'}"
        shown = f"{compared:.{2 if target.ratio else 4}f} {sign}"
        row = f"{variant:12} {target.title:22} {mine:9.3f} {theirs:9.3f} {target.unit:5} {shown:>13}  {verdict}"
        print(row.rstrip(), flush=True)
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    variants = [f"{dialect}-{numbers}" for numbers in NUMBERS for dialect in ("linen", "nnx")]
    parser.add_argument("--peer-python", default=os.environ.get("MAXTEXT_PYTHON"), help="default: $MAXTEXT_PYTHON")
    parser.add_argument("--variants", nargs="+", choices=variants, default=variants)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--out", type=Path, help="keep logs here (default: a temporary folder)")
    arguments = parser.parse_args()
    if not arguments.peer_python:
        parser.error("say where MaxText lives: --peer-python VENV/bin/python, or set MAXTEXT_PYTHON")
    facts, peer_facts = read_facts(sys.executable), read_facts(arguments.peer_python)
    if not peer_facts["maxtext"]:
        parser.error(f"{arguments.peer_python} has no maxtext: uv pip install 'maxtext[tpu]==0.2.4' there")
    print(describe_machine())
    print(f"ours     {facts['versions']}")
    print(f"peer     {peer_facts['versions']}")
    print(f"model    {' '.join(f'{key}={value}' for key, value in SHARED.items())} steps={arguments.steps}\n")
    print(f"{'variant':12} {'figure':22} {'ours':>9} {'MaxText':>9}")
    met = True
    with tempfile.TemporaryDirectory() as temporary:
        for variant in arguments.variants:
            folder = (arguments.out or Path(temporary)) / variant
            folder.mkdir(parents=True, exist_ok=True)
            dialect, numbers = variant.split("-")
            argv, metrics = our_argv(dialect, numbers, arguments.steps, folder)
            metrics.unlink(missing_ok=True)  # our trainer appends, because it may resume a run
            ours = measure(argv, metrics, "loss", arguments.steps, folder / "ours.log")
            argv, metrics = peer_argv(
                arguments.peer_python, str(peer_facts["maxtext"]), dialect, numbers, arguments.steps, folder
            )
            peer = measure(argv, metrics, "learning/loss", arguments.steps, folder / "peer.log")
            met &= print_rows(variant, ours, peer)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
