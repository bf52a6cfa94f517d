"""Turns the data that a config names into what stands in its way, without a library that could read all of it."""

from collections.abc import Iterator
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from configs.schema import TrainConfig

REMOTE = "gs://"
MOST = 1 << 20  # bytes of each file that are looked at
BYTE_TOKENS = 259  # the bytes, and ByT5's three of its own
MAGIC = {"parquet": b"PAR1"}  # what a file of the kind begins with


def find_data_problems(config: "TrainConfig") -> Iterator[str]:
    """What of the data is missing, empty or of another kind, as far as it lies on this machine."""
    if config.dataset_type != "grain":
        return
    yield from _of_files("grain_train_files", config.grain_train_files, config.grain_file_type)
    if config.eval_interval != -1:
        yield from _of_files("grain_eval_files", config.grain_eval_files, config.grain_file_type)
    if not config.tokenizer_path and config.vocab_size < BYTE_TOKENS:
        yield f"vocab_size={config.vocab_size} is less than the {BYTE_TOKENS} of tokenizer_path='' (single bytes)"
    elif config.tokenizer_path and not Path(config.tokenizer_path).expanduser().is_file():
        yield f"tokenizer_path={config.tokenizer_path}: there is no such file"


def split_patterns(text: str) -> list[str]:
    """The patterns of a list that commas divide."""
    return [word for word in (part.strip() for part in text.split(",")) if word]


def find_here(pattern: str) -> list[str]:
    """The files on this machine that a pattern fits; a path that is not absolute begins where maxview is."""
    root = Path(__file__).parent.parent
    return sorted(name for name in glob(str(root / Path(pattern).expanduser()), recursive=True) if Path(name).is_file())


def _of_files(key: str, patterns: str, kind: str) -> Iterator[str]:
    if not split_patterns(patterns):
        yield f"{key} is empty: name the files to read, for example {key}=data/*.{kind}"
    for pattern in split_patterns(patterns):
        if pattern.startswith(REMOTE):
            continue
        found = find_here(pattern)
        if not found:
            yield f"{key}={pattern}: there is no such file"
        for name in found:
            yield from _of_file(key, name, kind)


def _of_file(key: str, name: str, kind: str) -> Iterator[str]:
    with open(name, "rb") as file:
        begin = file.read(MOST)
    if not begin.strip():
        yield f"{key}: {name} is empty"
    elif kind == "txt" and not is_text(begin, whole=len(begin) < MOST):
        yield f"{key}: {name} is no text in UTF-8 (grain_file_type={kind})"
    elif not begin.startswith(MAGIC.get(kind, b"")):
        yield f"{key}: {name} is no {kind} file (grain_file_type={kind})"


def is_text(begin: bytes, *, whole: bool) -> bool:
    """Whether the beginning of a file is UTF-8 without zero bytes; its last character may be cut off."""
    try:
        begin.decode()
    except UnicodeDecodeError as error:
        return not whole and error.start >= len(begin) - 3 and b"\0" not in begin
    return b"\0" not in begin
