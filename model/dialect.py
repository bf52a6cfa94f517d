"""What a dialect is to the rest of the trainer, and which one a config asks for."""

from typing import Any, Protocol

from configs.schema import TrainConfig
from model.attention import load_core
from model.batch import Batch
from model.declaration import Declaration
from model.objective import Metrics
from model.params import Tree, flatten


class Dialect(Protocol):
    """A decoder with its way to hold, train and save a state. Parameters are named `params/decoder/…` in both."""

    name: str  # "linen" or "nnx"

    def declare(self) -> dict[str, Declaration]: ...
    def first(self, params: dict[str, Any]) -> Tree: ...
    def train_step(self, arrays: Any, batch: Batch) -> tuple[Any, Metrics]: ...
    def eval_step(self, arrays: Any, batch: Batch) -> Metrics: ...
    def to_tree(self, arrays: Any) -> dict[str, Tree]: ...
    def from_tree(self, tree: dict[str, Tree]) -> Any: ...
    def common_names(self, paths: list[str]) -> list[str]: ...


def make_dialect(config: TrainConfig) -> Dialect:
    """The dialect that `pure_nnx` asks for."""
    load_core(config)
    if config.pure_nnx:
        from model.trainer_nnx import Nnx  # a run loads its own API only

        return Nnx(config)
    from model.trainer_linen import Linen

    return Linen(config)


def name_arrays(dialect: Dialect, arrays: Any) -> dict[str, Any]:
    """The arrays of a state, or what stands for them, under the names that both dialects share."""
    found = flatten(dialect.to_tree(arrays))
    return dict(zip(dialect.common_names(list(found)), found.values(), strict=True))


def step_of(dialect: Dialect, arrays: Any) -> int:
    """How many steps a state has done, which is the number of the next one."""
    return int(name_arrays(dialect, arrays)["step"])
