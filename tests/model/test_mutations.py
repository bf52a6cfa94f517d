"""The proof can fail: one API is changed as migrations break it, and a floor detects the change."""

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import model
from configs.schema import TrainConfig
from model.compile_record import strip_stablehlo
from model.decoder.sharding import make_mesh
from model.train import trainer_nnx
from model.train.api import Api, name_arrays
from model.train.data_source import make_source
from model.train.step import Setup, declare_state, init_state, lower_step, make_program
from model.train.trainer_linen import Linen

pytestmark = pytest.mark.flows

type MiniConfig = Callable[..., TrainConfig]

DEVICES, MIDDLE, STEPS = 2, 2, 4
MUTATIONS = {
    "an initializer": ("decoder_nnx", 'INITIALIZERS["wo"]', 'INITIALIZERS["key"]', "same bits"),
    "an axis": ("decoder_nnx", '("embed", "mlp")', '("mlp", "embed")', "same program"),
    "a gradient that is stopped": (
        "decoder_nnx",
        'value_BLGK = project("value")',
        'value_BLGK = jax.lax.stop_gradient(project("value"))',
        "same program",
    ),
    "a dropout key": ("decoder_nnx", "layers.fold_in(context.key, layer)", "context.key", "same program"),
    "an activation": ("decoder_nnx", "jax.nn.silu", "jax.nn.gelu", "same program"),
    "a weight decay that is lost": (
        "trainer_nnx",
        "make_optimizer(config)",
        "make_optimizer(config.replace(adam_weight_decay=0.0))",
        "same program",
    ),
    "an update before the clipping": (
        "trainer_nnx",
        "state.optimizer.update(state.model, clipped.gradients)",
        "state.optimizer.update(state.model, gradients)",
        "same program",
    ),
    "a random stream that starts again at resume": (
        "trainer_nnx",
        "step_key(self.config, step)",
        "step_key(self.config, step - RESUMED_AT if RESUMED_AT else step)",
        "same checkpoint",
    ),
}


def mutate(name: str, before: str, after: str, **values: Any) -> types.ModuleType:
    """One of our modules with one text replaced by another."""
    path = Path(model.__file__).parent / ("train" if name.startswith("trainer") else "decoder") / f"{name}.py"
    source = path.read_text(encoding="utf-8")
    assert before in source
    module = types.ModuleType(name)
    module.__dict__.update(values)
    exec(compile(source.replace(before, after), str(path), "exec"), module.__dict__)
    return module


class Lab:
    """One API on its mesh; its program is compiled at its first run."""

    def __init__(self, config: TrainConfig, api: Api):
        self.config, self.api = config, api
        self.mesh = make_mesh(config, jax.devices()[:DEVICES])
        self.setup: Setup = declare_state(config, api, self.mesh)
        self.lowered = lower_step(self.setup)
        self.text = strip_stablehlo(self.lowered.as_text())

    def start(self) -> Any:
        return init_state(self.setup)

    def run(self, state: Any, steps: int) -> Any:
        program = make_program(self.setup, self.lowered)
        batch = make_source(self.config, self.mesh).next()
        for _ in range(steps):
            state, _ = program.run(state, batch)
        return state

    def bits(self, state: Any) -> dict[str, bytes]:
        return {path: np.asarray(array).tobytes() for path, array in name_arrays(self.api, state).items()}


@pytest.fixture(scope="module")
def linen(mini_config: MiniConfig) -> Lab:
    config = mini_config("03_dropout", max_target_length=16)
    return Lab(config, Linen(config))


def failing_floor(linen: Lab, nnx: Lab, resumed: Callable[[], Lab]) -> str | None:
    """The first floor that fails."""
    if linen.text != nnx.text:
        return "same program"
    if linen.bits(linen.start()) != nnx.bits(nnx.start()):
        return "same bits"
    middle = nnx.run(nnx.start(), MIDDLE)
    saved = jax.tree.map(np.array, middle)
    whole, other = nnx.run(middle, STEPS - MIDDLE), resumed()
    again = jax.tree.map(lambda leaf, kind: jax.device_put(leaf, kind.sharding), saved, other.setup.arrays)
    if nnx.bits(whole) != other.bits(other.run(again, STEPS - MIDDLE)):
        return "same checkpoint"
    return None


LONGEST = "a random stream that starts again at resume"  # two runs and a checkpoint


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long) if name == LONGEST else name for name in MUTATIONS],
)
def test_a_change_of_one_api_is_detected(
    name: str, linen: Lab, mini_config: MiniConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, before, after, floor = MUTATIONS[name]
    config = mini_config("03_dropout", max_target_length=16, pure_nnx=True)

    def lab(resumed_at: int) -> Lab:
        mutated = mutate(module, before, after, RESUMED_AT=resumed_at)
        if module == "trainer_nnx":
            return Lab(config, mutated.Nnx(config))
        monkeypatch.setattr(trainer_nnx, "decoder_nnx", mutated)
        return Lab(config, trainer_nnx.Nnx(config))

    assert failing_floor(linen, lab(0), lambda: lab(MIDDLE)) == floor


def test_another_order_of_declarations_changes_nothing(
    linen: Lab, mini_config: MiniConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Must not be detected: weights are drawn by path, in any order of creation."""
    lines = [
        '        self.key = projection("key", G, kv_axes)\n',
        '        self.value = projection("value", G, kv_axes)\n',
    ]
    mutated = mutate("decoder_nnx", "".join(lines), "".join(reversed(lines)))
    monkeypatch.setattr(trainer_nnx, "decoder_nnx", mutated)
    config = mini_config("03_dropout", max_target_length=16, pure_nnx=True)
    nnx = Lab(config, trainer_nnx.Nnx(config))
    assert nnx.text == linen.text
    assert nnx.bits(nnx.start()) == linen.bits(linen.start())
