"""Prints a Markdown table of the floors that hold: every case × 1 and 8 devices × float32 and bfloat16.

`python -m tests.soak.floors [--program] [--model MODEL]… [CASE…]`: lowers Linen and NNX and, without `--program`,
compiles and trains them for three steps from the same weights; then each restores the other's state after the first
step and trains on. The model is `tiny` with two layers (12_pipeline: sixteen) at short sequences. P, B and C mean same
program, same bits, same checkpoint; a lower-case letter means that the floor does not hold. With `--model` the steps
are only lowered, at that model's size, for the 32 devices of a v6e-32.
"""

import argparse
import os
import sys
from collections.abc import Iterator

import jax
import numpy as np

from configs.comparison import load_comparison, load_target
from configs.errors import ConfigError
from configs.load import CONFIG_ROOT, load_train_config
from configs.names import list_names
from configs.schema import TrainConfig
from model.compile_record import strip_stablehlo
from model.decoder.sharding import make_mesh
from model.train.api import Api, make_api, name_arrays
from model.train.cross_restore import translate_state
from model.train.data_source import make_source
from model.train.step import declare_state, init_state, lower_step, make_program
from tasks.resolve.arm_config import find_unfit_cases, resolve_config

SIZE = {
    "base_emb_dim": 64, "base_num_query_heads": 4, "base_num_kv_heads": 4, "head_dim": 16, "base_mlp_dim": 128,
    "vocab_size": 512, "max_target_length": 32, "learning_rate": 0.01, "log_config": False,
    # keys that a model file adds for cases with experts and latent attention
    "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
    "base_moe_mlp_dim": 32,
}  # fmt: skip
LAYERS = {"12_pipeline": 16}
DEVICES, TYPES = (1, 8), ("float32", "bfloat16")
STEPS = 3
TARGETS = {1: "cpu", 8: "cpu-8"}
SLICE = "v6e-32"


class Side:
    """The step of one API."""

    def __init__(self, config: TrainConfig, devices: int):
        self.config = config
        self.mesh, self.api = make_mesh(config, jax.devices()[:devices]), make_api(config)
        self.setup = declare_state(config, self.api, self.mesh)
        self.lowered = lower_step(self.setup)
        self.program = strip_stablehlo(self.lowered.as_text())

    def train(self) -> tuple[list[dict[str, bytes]], object]:
        """Return the bits of metrics and state after every step, and the state after the first."""
        self.run = make_program(self.setup, self.lowered).run
        self.batches = make_source(self.config, self.mesh)
        self.after_first, bits = None, []
        state = init_state(self.setup)
        self.fed = [self.batches.next() for _ in range(STEPS)]
        for batch in self.fed:
            state, metrics = self.run(state, batch)
            self.after_first = self.after_first or jax.tree.map(np.array, state)
            bits.append(
                bits_of(self.api, state) | {name: np.asarray(value).tobytes() for name, value in metrics.items()}
            )
        return bits, self.after_first

    def go_on(self, writer: Api, held: object) -> dict[str, bytes]:
        """Train on from the other API's state after the first step; return the final bits."""
        state = jax.device_put(
            translate_state(writer, held, self.setup),
            jax.tree.map(lambda leaf: leaf.sharding, self.setup.arrays),
        )
        for batch in self.fed[1:]:
            state, _ = self.run(state, batch)
        return bits_of(self.api, state)


def bits_of(api: Api, state: object) -> dict[str, bytes]:
    """Every array of a state as bytes."""
    return {path: np.asarray(array).tobytes() for path, array in name_arrays(api, state).items()}


def find_floors(case: str, devices: int, dtype: str, *, program_only: bool) -> str:
    """The letters of one cell."""
    wanted = SIZE | {
        "base_num_decoder_layers": LAYERS.get(case, 2),
        "per_device_batch_size": 8 // devices,
        "dtype": dtype,
    }
    words = [f"{key}={value}" for key, value in wanted.items()]
    path = CONFIG_ROOT / "cases" / f"{case}.yml"
    sides = [Side(load_train_config(path, [*words, f"pure_nnx={nnx}"]), devices) for nnx in ("false", "true")]
    letters = "P" if sides[0].program == sides[1].program else "p"
    if program_only:
        return letters
    (left, left_held), (right, right_held) = (side.train() for side in sides)
    letters += "B" if left == right else "b"
    crossed = [sides[1].go_on(sides[0].api, left_held), sides[0].go_on(sides[1].api, right_held)]
    ends = [bits_of_state(left[-1]), bits_of_state(right[-1])]
    return letters + ("C" if crossed == ends else "c")


def bits_of_state(bits: dict[str, bytes]) -> dict[str, bytes]:
    """Without the metrics, whose names have no folders."""
    return {path: value for path, value in bits.items() if "/" in path or path == "step"}


def rows(cases: list[str], *, program_only: bool) -> Iterator[str]:
    """The lines of the table."""
    unfit = {devices: find_unfit_cases(cases, load_target(TARGETS[devices])) for devices in DEVICES}
    columns = [(devices, dtype) for devices in DEVICES for dtype in TYPES]
    yield "| case | " + " | ".join(f"{devices} × {dtype}" for devices, dtype in columns) + " |"
    yield "|---|" + ":-:|" * len(columns)
    for case in cases:
        cells = []
        for devices, dtype in columns:
            try:
                fits = case not in unfit[devices]
                cells.append(find_floors(case, devices, dtype, program_only=program_only) if fits else "–")
            except Exception as error:  # report the reason for an empty cell
                sys.stderr.write(f"{case} {devices} {dtype}: {error}\n")
                cells.append("failed")
            sys.stderr.write(f"{case} {devices} {dtype}: {cells[-1]}\n")
        yield f"| `{case}` | " + " | ".join(cells) + " |"


def find_full_size(case: str, model: str) -> str:
    """Return a case's letter at the size of a model; – if it is impossible, or only a TPU's compiler can lower it."""
    comparison, target = load_comparison("linen-vs-nnx"), load_target(SLICE)
    try:
        configs = [
            resolve_config(comparison, target, case=case, arm=arm, model=model).config for arm in ("linen", "nnx")
        ]
        linen, nnx = (Side(config, target.devices).program for config in configs)
    except (ConfigError, ValueError) as error:
        sys.stderr.write(f"{case} {model}: {error}\n")
        return "–"
    return "P" if linen == nnx else "p"


def rows_of_models(cases: list[str], models: list[str]) -> Iterator[str]:
    """The lines of the table at full size."""
    yield "| case | " + " | ".join(f"`{model}`" for model in models) + " |"
    yield "|---|" + ":-:|" * len(models)
    for case in cases:
        yield f"| `{case}` | " + " | ".join(find_full_size(case, model) for model in models) + " |"


def main() -> None:
    """Print the table to standard output and progress to standard error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--program", action="store_true", help="lower only")
    parser.add_argument("--model", action="append", default=[], help="lower only, at this size, for a slice")
    asked = parser.parse_args()
    os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"  # the same for both sides, and quicker to compile
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", load_target(SLICE).devices if asked.model else max(DEVICES))
    cases = asked.cases or list(list_names("cases"))
    for line in rows_of_models(cases, asked.model) if asked.model else rows(cases, program_only=asked.program):
        print(line, flush=True)


if __name__ == "__main__":
    main()
