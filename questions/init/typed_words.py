"""Reads the words of a command: places for its output, and options that are keys of the config."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from configs.custom_trainer import KEYS
from configs.read import load_yaml

# options for a folder of outputs
_OUTPUT = re.compile(
    r"(work|out|output|log|save|model|run|ckpt|checkpoint|checkpoints|train)?[-_]?(dir|path|folder|root)?"
)
_ALIASES = {
    "lr": "learning_rate",
    **dict.fromkeys(("num_steps", "max_steps", "train_steps", "total_steps", "num_train_steps"), "steps"),
}


class Option(NamedTuple):
    """An option with a value: `--lr 0.1`, `--lr=0.1` or `lr=0.1`."""

    at: int  # index of the word with the value
    before: str  # text of that word before the value
    name: str  # with underscores, without dashes and the names of groups before a dot
    value: str


def list_options(words: Sequence[str]) -> Iterator[Option]:
    """Yield the options of a command that have a value."""
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if equals and re.fullmatch(r"-{0,2}[A-Za-z][\w.-]*", name):
            yield Option(at, f"{name}=", _plain(name), value)
        elif re.fullmatch(r"--?[A-Za-z][\w.-]*", word) and at + 1 < len(words) and not words[at + 1].startswith("--"):
            yield Option(at + 1, "", _plain(word), words[at + 1])


def _plain(name: str) -> str:
    return name.lstrip("-").rpartition(".")[2].replace("-", "_")


def redirect_outputs(words: Sequence[str]) -> list[str]:
    """Return the words with the run's folder in place of absolute folders of outputs: both arms would share them."""
    changed = list(words)
    for option in list_options(words):
        if option.value.startswith("/") and option.name and _OUTPUT.fullmatch(option.name):
            changed[option.at] = f"{option.before}{{out}}/{Path(option.value).name}"
    return changed


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
