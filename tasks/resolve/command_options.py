"""Reads the options of a command: its values, and places for its output."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_FOLDER = r"[-_]?(dir|path|folder|root)?"
_OUTPUT = re.compile(rf"(work|out|output|log|save|run){_FOLDER}")  # options for a folder of outputs
_EITHER = re.compile(rf"(model|ckpt|checkpoint|checkpoints|train)?{_FOLDER}")  # of outputs, or of what is read


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
    """Return the words with the run's folder in place of absolute folders of outputs.

    Both arms would share these, and the second one would resume from the first one's checkpoints. A folder that exists
    stays if it may be one to read, as of `--model_path`.
    """
    changed = list(words)
    for option in list_options(words):
        if not option.value.startswith("/") or not option.name:
            continue
        is_new = not Path(option.value).exists()
        if _OUTPUT.fullmatch(option.name) or (is_new and _EITHER.fullmatch(option.name)):
            changed[option.at] = f"{option.before}{{out}}/{Path(option.value).name}"
    return changed
