"""The attention kernel of a config. The expected kernels are MaxText's choice for the same keys."""

import pytest

from configs.comparison import load_comparison, load_target
from configs.kernels import choose_attention, describe_attention
from configs.schema import TrainConfig
from tasks.resolve.arm_config import resolve_config


def resolve(target: str, *overrides: str, case: str = "01_base") -> TrainConfig:
    comparison = load_comparison("linen-vs-nnx")
    return resolve_config(comparison, load_target(target), case=case, arm="nnx", overrides=overrides).config


@pytest.mark.parametrize(
    ("target", "overrides", "kernel", "why"),
    [
        ("v6e-32", (), "flash", "autoselected: on a TPU"),
        ("cpu", (), "dot_product", "autoselected: hardware is cpu"),
        ("gpu", (), "dot_product", "autoselected: hardware is gpu"),
        ("v6e-32", ("max_target_length=64",), "dot_product", "autoselected: max_target_length must be a multiple"),
        ("v6e-32", ("ici_context_parallelism=2",), "dot_product", "autoselected: ici_context_parallelism must be 1"),
        ("v6e-32", ("attention=dot_product",), "dot_product", "as attention says"),
        ("cpu", ("attention=flash",), "flash", "as attention says"),
    ],
)
def test_a_tpu_gets_flash_if_the_kernel_supports_the_shapes(
    target: str, overrides: tuple[str, ...], kernel: str, why: str
) -> None:
    chosen = choose_attention(resolve(target, *overrides))
    assert chosen.kernel == kernel
    assert chosen.why.startswith(why)


def test_the_choice_is_explained_in_one_line() -> None:
    assert describe_attention(resolve("v6e-32")) == "flash (autoselected: on a TPU)"
    assert describe_attention(resolve("v6e-32", case="15_flash_attention")) == "flash (as attention says)"
