"""Which kernel of attention a config gets: the one that it names, or the one that `autoselected` takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from configs.schema import TrainConfig

LANES = 128  # of a TPU's vector unit
type Kernel = Literal["dot_product", "flash"]


class Choice(NamedTuple):
    """A kernel of attention, and why it is this one."""

    kernel: Kernel
    why: str


def choose_attention(config: TrainConfig) -> Choice:
    """The kernel that computes attention.

    `autoselected` is MaxText's word and rule: flash on a TPU where its kernel takes the shapes, else dot_product.
    """
    if config.attention != "autoselected":
        return Choice(config.attention, "as attention says")
    if config.hardware != "tpu":
        return Choice("dot_product", f"autoselected: hardware is {config.hardware}")
    refused = flash_problems(config)
    if refused:
        return Choice("dot_product", f"autoselected: {refused[0]}")
    return Choice("flash", "autoselected: on a TPU")


def flash_problems(config: TrainConfig) -> list[str]:
    """What the kernel of `flash` cannot compute on a kind of device; an empty list if there is nothing."""
    problems = []
    if config.hardware == "tpu":
        if config.max_target_length % LANES:
            problems.append(f"max_target_length must be a multiple of {LANES} for attention=flash (the kernel's lanes)")
        if config.ici_context_parallelism != 1:
            problems.append("ici_context_parallelism must be 1 for attention=flash (its kernel sees whole sequences)")
    elif config.attention_type == "mla":
        problems.append("attention=flash needs attention_type=global but on a TPU (values have another width)")
    return problems


def describe_attention(config: TrainConfig) -> str:
    """The kernel and the reason as one line, for example "flash (autoselected: on a TPU)"."""
    kernel, why = choose_attention(config)
    return f"{kernel} ({why})"
