"""Finds the options of a command that are keys of the config."""

import re
from collections.abc import Sequence

from configs.custom_trainer import KEYS
from configs.read import load_yaml
from tasks.resolve.command_options import Option, list_options

_ALIASES = {
    "lr": "learning_rate",
    **dict.fromkeys(("num_steps", "max_steps", "train_steps", "total_steps", "num_train_steps"), "steps"),
}


def find_keys(argv: Sequence[str]) -> dict[str, Option]:
    """Return the options that are keys of the config; a key that occurs twice is none."""
    found: dict[str, Option] = {}
    twice = set()
    for option in list_options(argv):
        key = _ALIASES.get(option.name, option.name)
        if key in KEYS and "{" not in option.value:
            twice |= {key} & found.keys()
            found[key] = option
    return {key: option for key, option in found.items() if key not in twice}


def value_of(option: Option) -> object:
    """Return an option's value as YAML reads it."""
    text = option.value
    return float(text) if re.fullmatch(r"\d+e-?\d+", text) else load_yaml(text, typ="safe")
