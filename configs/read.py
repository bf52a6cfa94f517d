"""Reads YAML 1.2 files into mappings that store the line of every key, rejects malicious files, and reads durations."""

import re
import stat
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.composer import Composer, ComposerError, MaxDepthExceededError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.scalarbool import ScalarBoolean

from configs.errors import ConfigError

CONFIG_ROOT = Path(__file__).parent
MAX_VALUES = 100_000  # limit of values in one file, with aliases expanded
MAX_LEVELS = 50  # limit of nesting levels in one file; the parser's time grows with the square of the levels


class _Tree(Composer):
    """A composer that rejects values that contain themselves."""

    def return_alias(self, a: Any) -> Any:
        if a.end_mark is None:  # the alias is inside its own anchor's value
            raise ComposerError(None, None, f"*{a.anchor} stands inside its own anchor &{a.anchor}", a.start_mark)
        return a


def load_yaml(text: str, *, typ: str) -> Any:
    """Parse YAML with ruamel's loader `typ`. Raises YAMLError, also above MAX_LEVELS levels and for self-references."""
    yaml = YAML(typ=typ, pure=True)
    yaml.max_depth = MAX_LEVELS
    yaml.Composer = _Tree
    return yaml.load(text)


@lru_cache(maxsize=512)  # cached, because it is called for every value of a file
def display_path(path: Path) -> str:
    """Return `configs/…` for a file in maxview's own configs folder, else the given path."""
    try:
        return str(Path("configs") / path.resolve().relative_to(CONFIG_ROOT.resolve()))
    except ValueError:
        return str(path)


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file. Raises ConfigError."""
    try:
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():  # reading a pipe or device may never end
            raise ConfigError([f"{display_path(path)}: is a pipe or a device: name a file"])
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError([f"{display_path(path)}: cannot be read: {error.strerror or error}"]) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError([f"{display_path(path)}:{line}: is not UTF-8 text (save the file as UTF-8)"]) from error


def read_yaml(path: Path) -> CommentedMap:
    """Return the mapping in a file; empty for an empty file. Raises ConfigError."""
    return _parse(display_path(path), read_text(path))


@lru_cache(maxsize=512)
def _parse(shown: str, text: str) -> CommentedMap:
    """Return the mapping in a file's `text`. It is cached, so callers must not modify it. shown: path for messages."""
    try:
        data = load_yaml(text, typ="rt")
    except MaxDepthExceededError as error:
        where = f"{shown}:{error.problem_mark.line + 1}"
        raise ConfigError([f"{where}: is nested too deeply to be a config: write it with fewer levels"]) from error
    except MarkedYAMLError as error:  # invalid syntax, and repeated keys
        mark = error.problem_mark or error.context_mark
        where = f"{shown}:{mark.line + 1}" if mark else shown
        raise ConfigError([f"{where}: not valid YAML: {error.problem or error.context}"]) from error
    except YAMLError as error:  # characters that YAML forbids, for example in a binary file
        raise ConfigError([f"{shown}: not valid YAML: {str(error).splitlines()[0]}"]) from error
    if data is None:
        return CommentedMap()
    if count_values(data) > MAX_VALUES:
        raise ConfigError([f"{shown}: its anchors (&x, *x) stand for more than {MAX_VALUES:,} values: write less"])
    if not isinstance(data, CommentedMap):
        raise ConfigError([f"{shown}:1: expected `key: value` lines, got {to_python(data)!r:.60}"])
    return data


def count_values(value: Any, known: dict[int, int] | None = None) -> int:
    """Return the number of values in a YAML value, with all aliases expanded. known: counts so far, by a value's id."""
    known = {} if known is None else known
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        inner = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(count_values(item, known) for item in inner)
    return known[id(value)]


def origin_of(data: CommentedMap, path: Path, keys: Sequence[str | int]) -> str:
    """Return `file:line` of the value at `keys`, or of its nearest parent with a line; the file if there is none."""
    here: Any = data
    line = None
    for key in keys:
        try:
            position = here.lc.key(key) if isinstance(here, CommentedMap) else here.lc.item(key)
            line, here = position[0] + 1, here[key]
        except (KeyError, IndexError, TypeError, AttributeError):
            break  # the key is missing, comes from a YAML merge (`<<`), or its parent is a plain value
    return display_path(path) if line is None else f"{display_path(path)}:{line}"


def to_python(value: Any) -> Any:
    """Return a YAML value with Python's own types instead of ruamel's, which store the formatting too."""
    if isinstance(value, Mapping):
        return {str(k): to_python(v) for k, v in value.items()}
    if isinstance(value, list | CommentedSeq):
        return [to_python(v) for v in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, ScalarBoolean):  # ruamel turns a bool with an anchor into an int
        return bool(value)
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value


def first_comment(path: Path) -> str:
    """Return the comment lines at the top of a YAML file, joined into one line; "" if there are none."""
    lines = []
    for line in read_text(path).splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# ").strip())
    return " ".join(lines)


def read_duration(text: str) -> float:
    """Return a duration in seconds. Raises ValueError with examples, also for 0."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    seconds = float(match[1]) * {"s": 1.0, "m": 60.0, "h": 3600.0}[match[2]] if match else 0.0
    if not seconds:
        raise ValueError(f"'{text}' is not a duration: type for example 90s, 10m or 2h")
    return seconds
