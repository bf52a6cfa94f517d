"""Compiles steps of seed-1b for a v6e-32 on this machine, and prints the compiler's figures beside MaxText's.

    python -m benchmarks.preflight --maxtext-python PYTHON [--case CASE]…

PYTHON belongs to an environment with MaxText 0.2.4 (`uv pip install --resolution=lowest 'maxtext[tpu]==0.2.4'`). Each
step takes minutes. Exit status: 0 all targets met; 1 not all.
"""

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine import describe_machine
from configs.comparison import load_comparison, load_target
from configs.environment import pass_on
from configs.schema import TrainConfig
from configs.topologies import GIB, find_topology
from tasks.programs.program_work import analyse_program
from tasks.records.compiled import FILE, OPTIMISED, CompiledProgram
from tasks.resolve.arm_config import resolve_config
from tasks.resolve.trainers.maxtext import find_maxtext
from tasks.resolve.trainers.maxtext_trainer import MaxTextTrainer
from tasks.resolve.trainers.maxview_trainer import CONFIG, MaxviewTrainer
from tasks.resolve.trainers.trainer import Trainer
from tasks.store.directories import yaml_scalar

COMPARISON = load_comparison("linen-vs-nnx")
ARMS = ("linen", "nnx")
LARGEST_GIB = {"01_base": 1.20, "04_int8": 1.20, "03_dropout": 0.75}  # target: most memory of one device of v6e-32
CPU_SHARE = 0.6
OURS = MaxviewTrainer(commit=None, dirty=False, versions={})
TIME_LIMIT_S = 3600


class Compiled(NamedTuple):
    """One compile. cycles and collective_bytes: the compiled program's work in a step."""

    program: CompiledProgram
    cycles: int
    collective_bytes: int


def compile_step(config: TrainConfig, trainer: Trainer, topology: str, folder: Path) -> Compiled:
    """Compile a config for a slice. Raises ConfigError if that is impossible, OSError if the compile writes nothing."""
    command = trainer.invoke_compile(config, find_topology(topology), folder, folder.parent / "programs")
    folder.mkdir(parents=True)
    lines = (f"{key}: {yaml_scalar(value)}\n" for key, value in config.model_dump().items())
    (folder / CONFIG).write_text("".join(lines), encoding="utf-8")
    with (folder / "log.txt").open("w") as log:
        environment = pass_on(os.environ) | command.environment
        subprocess.run(command.argv, env=environment, stdout=log, stderr=log, timeout=TIME_LIMIT_S, check=False)
    program = CompiledProgram.model_validate_json((folder / FILE).read_text(encoding="utf-8"))
    if not program.ok:
        return Compiled(program, 0, 0)
    with gzip.open(folder / OPTIMISED, "rt", encoding="utf-8") as text:
        work = analyse_program(text).work.work
    return Compiled(program, work.cycles, work.collective_bytes)


def show_figures(cases: list[str], maxtext_python: Path, folder: Path) -> bool:
    """Print our figures and MaxText's, case by case; return whether all targets are met."""
    maxtext = find_maxtext(maxtext_python.expanduser().absolute())
    theirs = MaxTextTrainer(commit=None, dirty=False, versions=maxtext.versions, python=maxtext.python, maxtext=maxtext)
    target, met = load_target("v6e-32"), True
    topology = target.topology
    assert topology is not None  # the file of v6e-32 has one
    for case in cases:
        found: dict[str, Compiled] = {}
        for name, trainer in (("ours", OURS), (maxtext.title, theirs)):
            for arm in ARMS:
                config = resolve_config(COMPARISON, target, case=case, arm=arm).config
                key = f"{name} {arm}"
                found[key] = compile_step(config, trainer, topology, folder / case / key.replace(" ", "-"))
                print(f"{case:12} {key:22} {show(found[key])}", flush=True)
        linen, nnx, peer = found["ours linen"], found["ours nnx"], found[f"{maxtext.title} linen"]
        both = {name: sum(cpu(found[f"{name} {arm}"]) for arm in ARMS) for name in ("ours", maxtext.title)}
        checks = {
            f"≤ {LARGEST_GIB[case]:.2f} GiB": total_gib(linen) <= LARGEST_GIB[case],
            "Linen = NNX": linen.program.fingerprints == nnx.program.fingerprints,
            f"one compile ≤ {CPU_SHARE} × ({ratio(cpu(linen), cpu(peer)):.2f})": cpu(linen) <= CPU_SHARE * cpu(peer),
            f"both arms ≤ {CPU_SHARE} × ({both['ours']:.0f} over {both[maxtext.title]:.0f} CPU-s, "
            f"{ratio(both['ours'], both[maxtext.title]):.2f})": both["ours"] <= CPU_SHARE * both[maxtext.title],
            f"cycles ≤ 1 × ({ratio(linen.cycles, peer.cycles):.3f})": linen.cycles <= peer.cycles,
            f"collective bytes ≤ 1 × ({ratio(linen.collective_bytes, peer.collective_bytes):.3f}, "
            f"{linen.collective_bytes - peer.collective_bytes:+,} bytes)": (
                linen.collective_bytes <= peer.collective_bytes
            ),
        }
        print("  " + ", ".join(f"{'✓' if good else '✗'} {check}" for check, good in checks.items()), flush=True)
        met &= all(checks.values())
    return met


def show(found: Compiled) -> str:
    """Return one line of text about a compile."""
    program = found.program
    if program.error is not None:
        return f"{program.error.type}: {program.error.message.splitlines()[0]:.200}"
    fingerprint = program.fingerprints.optimised if program.fingerprints else None
    return (
        f"{total_gib(found):7.3f} GiB, compile {cpu(found):5.0f} CPU-s, {found.cycles:.4g} cycles, "
        f"{found.collective_bytes / GIB:.3f} GiB in collectives, program {str(fingerprint)[:8]}"
        + (f", taken from {program.taken_from}" if program.taken_from else "")
    )


def total_gib(found: Compiled) -> float:
    """Return the memory of one device during the step, in GiB."""
    return found.program.memory.total / GIB if found.program.memory else float("inf")


def cpu(found: Compiled) -> float:
    """Return the compiler's CPU seconds over all its threads."""
    return found.program.compile_cpu_seconds or float("inf")


def ratio(ours: float, theirs: float) -> float:
    """Return ours / theirs."""
    return ours / theirs if theirs else float("inf")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--maxtext-python", type=Path, required=True)
    parser.add_argument("--case", action="append", default=[], choices=LARGEST_GIB)
    given = parser.parse_args()
    print(describe_machine())
    with tempfile.TemporaryDirectory() as folder:
        done = show_figures(given.case or list(LARGEST_GIB), given.maxtext_python, Path(folder))
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
