"""Configs that cannot run are refused before launch, with the trainer's message and the origin of each value."""

import os
from collections.abc import Sequence

import pytest

from configs.checks import Devices, find_problems
from configs.comparison import load_comparison, load_target
from configs.errors import ConfigError
from configs.names import list_names
from configs.schema import TrainConfig
from tasks.resolve.arm_config import resolve_config
from tests.wording.sentences import Wording


def resolve(*overrides: str, target: str = "cpu", model: str | None = None, **changes: object) -> Sequence[str]:
    """The problems of a config on a target."""
    comparison, place = load_comparison("linen-vs-nnx"), load_target(target).replace(**changes)
    try:
        resolve_config(comparison, place, case="01_base", arm="linen", overrides=overrides, model=model)
    except ConfigError as error:
        return error.problems
    return ()


@pytest.mark.parametrize(
    ("words", "target", "message"),
    [
        (
            ("ici_fsdp_parallelism=16",),
            "cpu",
            "command line: ici_fsdp_parallelism=16: a mesh of 16 devices, and there are 1 (set one",
        ),
        (
            ("ici_data_parallelism=3",),
            "cpu-8",
            "ici_data_parallelism=3, ici_fsdp_parallelism=-1: they need a multiple of 3 devices, and there are 8",
        ),
        (("hardware=gpu",), "cpu", "command line: hardware=gpu, but the devices are cpu (set JAX_PLATFORMS=gpu or"),
        (("hardware=cpu",), "v6e-32", "command line: hardware=cpu, but the devices are tpu"),
        (
            ("ici_tensor_parallelism=8", "ici_fsdp_parallelism=1"),
            "cpu-8",
            "command line: base_num_query_heads=4 cannot be split over ici_tensor_parallelism=8: make it a multiple",
        ),
        (("per_device_batch_size=1000000000",), "cpu", "command line: per_device_batch_size=1000000000, "),
        (("max_target_length=2000000",), "cpu", "(make one smaller)"),  # its scores alone: 4 * 4 * 4 * 4e12 bytes
    ],
)
def test_impossible_configs_are_refused(words: tuple[str, ...], target: str, message: str) -> None:
    problem, *_ = resolve(*words, target=target)  # a head that does not fit has keys and values that do not fit either
    assert message in problem


def test_all_problems_are_reported_at_once() -> None:
    problems = resolve("hardware=tpu", "ici_fsdp_parallelism=2", "per_device_batch_size=1000000000")
    assert [problem.split(":")[1].split("=")[0].strip() for problem in problems] == ["hardware", "ici_fsdp_parallelism"]


def test_the_width_of_an_expert_counts_where_there_are_experts(wording: Wording) -> None:
    config = resolve_config(load_comparison("linen-vs-nnx"), load_target("cpu-8"), case="06_moe", arm="nnx").config
    changes = {"base_moe_mlp_dim": 31, "ici_tensor_parallelism": 2, "ici_fsdp_parallelism": 4}
    experts, none = config.replace(**changes), config.replace(**changes, num_experts=1, num_experts_per_tok=1)
    (problem,) = find_problems(experts, Devices(count=8))
    assert "base_moe_mlp_dim=31 " in problem
    assert "ici_tensor_parallelism=2" in problem
    wording("errors", problem)
    assert not [*find_problems(none, Devices(count=8))]


def test_possible_configs_are_accepted() -> None:
    assert not resolve("ici_fsdp_parallelism=2", "ici_tensor_parallelism=4", target="cpu-8")
    assert not resolve(target="v6e-32")
    # XLA's own figure for MaxText's step of this model on v6e-32: 1.337 GiB, with an attention that keeps no scores
    assert not resolve(target="v6e-32", topology=None, memory_gib=1.337)
    (problem,) = resolve(target="v6e-32", topology=None, memory_gib=0.4)
    assert "a step needs at least 0." in problem


@pytest.mark.parametrize("case", list_names("cases"))
@pytest.mark.parametrize("model", ["seed-1b", "deepseek2-16b"])
def test_a_case_is_trained_at_full_size_by_changing_the_model(case: str, model: str) -> None:
    def full(case: str) -> TrainConfig:
        target, comparison = load_target("v6e-32"), load_comparison("linen-vs-nnx")
        return resolve_config(comparison, target, case=case, arm="nnx", model=model).config

    if (case, model) == ("12_pipeline", "deepseek2-16b"):
        with pytest.raises(ConfigError, match="no mixture runs in a pipeline"):
            full(case)
        return
    config, base = full(case), full("01_base")
    sizes = [
        key for key in TrainConfig.model_fields if key.endswith(("_dim", "_rank", "heads", "experts", "decoder_layers"))
    ]
    changed = {key for key in sizes if getattr(config, key) != getattr(base, key)}
    assert changed == ({"num_experts"} if (case, model) == ("06_moe", "seed-1b") else set())


def test_experts_need_the_memory_of_all_their_parameters(wording: Wording) -> None:
    """deepseek2-16b has 15.7 billion parameters: 3 × 4 × 15.7e9 bytes over 32 chips are 5.5 GiB before any activation;
    counted as a dense model it would be a tenth."""
    (problem,) = resolve(target="v6e-32", model="deepseek2-16b", topology=None, memory_gib=5.0)
    assert "num_experts=64, base_moe_mlp_dim=1408: " in problem
    wording("errors", problem)
    assert not resolve(target="v6e-32", model="deepseek2-16b", topology=None, memory_gib=32.0)


def test_a_machines_memory_is_shared_by_its_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = int(16 * 2**30 / os.sysconf("SC_PAGE_SIZE"))
    real = os.sysconf
    monkeypatch.setattr(os, "sysconf", lambda name: pages if name == "SC_PHYS_PAGES" else real(name))
    # the scores of a sequence of 8192 take 4 heads * 8192² * 4 bytes = 1 GiB: 4 of them fit beside the rest, 32 do not
    words = ("max_target_length=8192", "per_device_batch_size=4")
    assert not resolve(*words, target="cpu")
    assert resolve(*words, target="cpu-8")
