"""Checks the data files and tokenizer that a config names, before launch and again in the trainer."""

from collections.abc import Callable, Iterator
from glob import glob
from pathlib import Path

from configs.config_keys import ConfigKeys

REMOTE = "gs://"
CHECKED_BYTES = 1 << 20  # bytes at the start of a text file that are checked
COLUMN = "text"  # the column that is read from parquet files
TEXTS = ("string", "large_string", "binary", "large_binary")  # allowed types of that column
RIEGELI = bytes.fromhex("83af70d10d884a3f")  # first bytes of every array_record file
BYTE_TOKENS = 259  # vocabulary without a tokenizer: 256 bytes and ByT5's three special tokens

type Find = Callable[[str], list[str]]  # path pattern → matching files; only local files are opened


def find_data_problems(config: ConfigKeys, bring: Find | None = None) -> Iterator[str]:
    """Yield the problems of the data, such as files that are missing or not text, or a tokenizer with too many tokens.

    Yields nothing for synthetic data. bring: downloads or lists the files in a bucket that match a pattern; None:
    buckets are not checked.
    """
    if config.dataset_type != "grain":
        return
    yield from _check_files("grain_train_files", config.grain_train_files, config.grain_file_type, bring)
    if config.eval_interval != -1:
        yield from _check_files("grain_eval_files", config.grain_eval_files, config.grain_file_type, bring)
    yield from _check_tokenizer(config.tokenizer_path, config.vocab_size)


def split_patterns(text: str) -> list[str]:
    """Return the patterns of a comma-separated list."""
    return [word for word in (part.strip() for part in text.split(",")) if word]


def place(path: str) -> Path:
    """Return a local path as an absolute path; a relative path begins at maxview's own folder."""
    return Path(__file__).parent.parent / Path(path).expanduser()


def find_here(pattern: str) -> list[str]:
    """Return the local files that match a pattern."""
    return sorted(name for name in glob(str(place(pattern)), recursive=True) if Path(name).is_file())


def _check_files(key: str, patterns: str, kind: str, bring: Find | None) -> Iterator[str]:
    if not split_patterns(patterns):
        yield f"{key} is empty: name the files to read, for example {key}=data/*.{kind}"
    for pattern in split_patterns(patterns):
        find = bring if pattern.startswith(REMOTE) else find_here
        if find is None:
            continue
        try:
            found = find(pattern)
        except FileNotFoundError:  # the bucket does not exist
            found = []
        except (OSError, NotImplementedError) as error:  # no permission to list the bucket; `**` in its pattern
            yield f"{key}={pattern}: {' '.join(str(error).split())}"
            continue
        if not found and place(pattern).is_dir():
            yield f"{key}={pattern}: is a folder: name its files, for example {key}={pattern.rstrip('/')}/*.{kind}"
        elif not found:
            yield f"{key}={pattern}: there is no such file"
        for name in found:
            if name.startswith(REMOTE):
                continue
            try:
                wrong = "is empty" if not Path(name).stat().st_size else CHECKS[kind](name)
            except (OSError, ValueError) as error:  # pyarrow raises ValueErrors
                wrong = f"cannot be read: {error}"
            if wrong:
                yield f"{key}={pattern}: {name} {wrong} (grain_file_type={kind})"


def _check_text(name: str) -> str:
    with open(name, "rb") as file:
        begin = file.read(CHECKED_BYTES)
    if not begin.strip():
        return "is empty"
    return "" if is_text(begin, whole=len(begin) < CHECKED_BYTES) else "is no text in UTF-8"


def _check_parquet(name: str) -> str:
    from pyarrow import parquet  # imported here because it takes half a second

    with open(name, "rb") as file:
        if file.read(4) != b"PAR1":
            return "is no parquet file"
    read = parquet.read_metadata(name)
    kinds = {field.name: str(field.type) for field in read.schema.to_arrow_schema()}
    if kinds.get(COLUMN) not in TEXTS:
        return f"has no column '{COLUMN}' with texts; it has: {', '.join(kinds) or 'none'}"
    return "" if read.num_rows else "holds no text"


def _check_records(name: str) -> str:
    from array_record.python.array_record_module import ArrayRecordReader

    with open(name, "rb") as file:
        if file.read(len(RIEGELI)) != RIEGELI:
            return "is no arrayrecord file"
    reader = ArrayRecordReader(name)
    if not reader.num_records():
        return "holds no record, or its end is missing"
    [first] = reader.read([0])
    return "" if is_text(first, whole=True) else "holds no text in UTF-8"


# grain_file_type → function that returns the problem of a local file, or "" for a valid file
CHECKS: dict[str, Callable[[str], str]] = {
    "txt": _check_text,
    "parquet": _check_parquet,
    "arrayrecord": _check_records,
}


def _check_tokenizer(path: str, vocab_size: int) -> Iterator[str]:
    if not path:
        if vocab_size < BYTE_TOKENS:
            yield f"vocab_size={vocab_size} is less than the {BYTE_TOKENS} of tokenizer_path='' (single bytes)"
        return
    import sentencepiece

    if not place(path).is_file():
        yield f"tokenizer_path={path}: there is no such file"
        return
    try:
        size = sentencepiece.SentencePieceProcessor(model_file=str(place(path))).vocab_size()
    except (OSError, RuntimeError) as error:
        yield f"tokenizer_path={path}: is no SentencePiece model: {error}"
        return
    if size > vocab_size:
        yield f"vocab_size={vocab_size} is less than the {size} tokens of tokenizer_path={path}"


def is_text(begin: bytes, *, whole: bool) -> bool:
    """Return whether bytes are UTF-8 text without zero bytes; unless `whole`, the last character may be incomplete."""
    try:
        begin.decode()
    except UnicodeDecodeError as error:
        return not whole and error.start >= len(begin) - 3 and b"\0" not in begin
    return b"\0" not in begin
