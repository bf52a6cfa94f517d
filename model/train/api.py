"""The interface through which the trainer uses Linen or NNX, and the choice between them."""

from typing import Any, Protocol

from configs.schema import TrainConfig
from model.decoder.attention import load_kernel
from model.decoder.declaration import Declaration
from model.decoder.params import Tree, flatten
from model.train.batch import Batch
from model.train.objective import Metrics


class Api(Protocol):
    """A decoder and its training step. `arrays`: the training state; `to_tree` returns it in checkpoint layout."""

    name: str  # "linen" or "nnx"

    def declare(self) -> dict[str, Declaration]: ...  # `params/decoder/…` -> parameter
    def first_state(self, params: dict[str, Any]) -> Tree: ...
    def train_step(self, arrays: Any, batch: Batch) -> tuple[Any, Metrics]: ...
    def eval_step(self, arrays: Any, batch: Batch) -> Metrics: ...
    def to_tree(self, arrays: Any) -> dict[str, Tree]: ...
    def from_tree(self, tree: dict[str, Tree]) -> Any: ...
    def common_names(self, paths: list[str]) -> list[str]: ...


def make_api(config: TrainConfig) -> Api:
    """Return NNX if `pure_nnx` is true, else Linen."""
    load_kernel(config)
    if config.pure_nnx:
        from model.train.trainer_nnx import Nnx  # a run loads one API only

        return Nnx(config)
    from model.train.trainer_linen import Linen

    return Linen(config)


def name_arrays(api: Api, arrays: Any) -> dict[str, Any]:
    """Return name → array of a state, under the names that both APIs share."""
    found = flatten(api.to_tree(arrays))
    return dict(zip(api.common_names(list(found)), found.values(), strict=True))


def step_of(api: Api, arrays: Any) -> int:
    """Return the number of steps that a state was trained for, which is also the number of the next step."""
    return int(name_arrays(api, arrays)["step"])
