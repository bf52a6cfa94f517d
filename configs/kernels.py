"""Chooses the attention kernel of a config: the kernel that `attention` names; for `autoselected`, a kernel by rule."""

from typing import Literal, NamedTuple

from configs.config_keys import ConfigKeys

LANES = 128  # number of lanes of a TPU's vector unit
type Kernel = Literal["dot_product", "flash"]


class Choice(NamedTuple):
    """An attention kernel, and the reason for it."""

    kernel: Kernel
    why: str


def choose_attention(config: ConfigKeys) -> Choice:
    """Return the attention kernel of a config.

    `autoselected` has MaxText's meaning: flash on a TPU if the flash kernel supports the config, else dot_product.
    """
    if config.attention != "autoselected":
        return Choice(config.attention, "as attention says")
    if config.hardware != "tpu":
        return Choice("dot_product", f"autoselected: hardware is {config.hardware}")
    refused = flash_problems(config)
    if refused:
        return Choice("dot_product", f"autoselected: {refused[0]}")
    return Choice("flash", "autoselected: on a TPU")


def flash_problems(config: ConfigKeys) -> list[str]:
    """Return the reasons why the `flash` kernel does not support a config; empty if it does."""
    problems = []
    if config.hardware == "tpu":
        if config.max_target_length % LANES:
            problems.append(f"max_target_length must be a multiple of {LANES} for attention=flash (the kernel's lanes)")
        if config.ici_context_parallelism != 1:
            problems.append("ici_context_parallelism must be 1 for attention=flash (its kernel sees whole sequences)")
    elif config.attention_type == "mla":
        problems.append("attention=flash needs attention_type=global but on a TPU (values have another width)")
    return problems


def describe_attention(config: ConfigKeys) -> str:
    """Return a config's kernel and the reason in one line, for example "flash (autoselected: on a TPU)"."""
    kernel, why = choose_attention(config)
    return f"{kernel} ({why})"
