"""Unusable training data is refused before launch, with the keys to change."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import polars as pl
import pytest
import sentencepiece
from array_record.python.array_record_module import ArrayRecordWriter

from configs.comparison import load_comparison, load_target
from configs.data_checks import find_data_problems
from configs.errors import ConfigError
from configs.load import load_train_config
from configs.read import CONFIG_ROOT
from tasks.resolve.arm_config import resolve_config
from tests.wording.sentences import Wording

type Write = Callable[[Path], object]


def problems_of(*words: str, target: str = "cpu", comparison: str = "linen-vs-nnx") -> list[str]:
    """Return the problems of 08_packing with these overrides."""
    spec = load_comparison(comparison)
    try:
        resolve_config(spec, load_target(target), case="08_packing", arm=spec.arms[0].name, overrides=words)
    except ConfigError as error:
        return error.problems
    return []


def write_bytes(data: bytes) -> Write:
    return lambda path: path.write_bytes(data)


def write_table(**columns: list[object]) -> Write:
    return lambda path: pl.DataFrame(columns).write_parquet(path)


def write_records(*records: bytes, cut: int = 0) -> Write:
    def write(path: Path) -> None:
        writer = ArrayRecordWriter(str(path), "group_size:1")
        for record in records:
            writer.write(record)
        writer.close()
        path.write_bytes(path.read_bytes()[: -cut or None])

    return write


@pytest.mark.parametrize(
    ("kind", "write", "message"),
    [
        ("txt", None, "grain_train_files={path}: there is no such file"),
        ("txt", Path.mkdir, "{path}: is a folder: name its files, for example grain_train_files={path}/*.txt"),
        ("txt", write_bytes(b""), "grain_train_files={path}: {path} is empty (grain_file_type=txt)"),
        ("txt", write_bytes(b" \n\n"), "grain_train_files={path}: {path} is empty"),
        ("txt", write_bytes(b"\xff\xfe\x00"), "{path} is no text in UTF-8 (grain_file_type=txt)"),
        ("parquet", write_bytes(b"text"), "{path} is no parquet file (grain_file_type=parquet)"),
        ("parquet", write_bytes(b"PAR1, and then no footer"), "{path} cannot be read: "),
        ("parquet", write_table(body=["a text"]), "{path} has no column 'text' with texts; it has: body"),
        ("parquet", write_table(text=[1, 2]), "{path} has no column 'text' with texts; it has: text"),
        ("parquet", write_table(text=pl.Series([], dtype=pl.String)), "{path} holds no text"),  # type: ignore[arg-type]
        ("arrayrecord", write_bytes(b"text"), "{path} is no arrayrecord file"),
        ("arrayrecord", write_records(), "{path} holds no record"),
        ("arrayrecord", write_records(b"a text", cut=100), "{path} holds no record, or its end is missing"),
        ("arrayrecord", write_records(b"\x08\x96\xff"), "{path} holds no text in UTF-8"),
    ],
)
def test_a_file_without_texts(kind: str, write: Write | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "texts"
    if write is not None:
        write(path)
    [problem] = problems_of(f"grain_train_files={path}", f"grain_file_type={kind}", "eval_interval=-1")
    assert problem.startswith("command line: grain_")
    assert message.format(path=path) in problem


def test_a_data_problem_has_the_origin_of_the_path(tmp_path: Path, wording: Wording) -> None:
    write_bytes(b"")(tmp_path / "texts")
    [problem] = problems_of(f"grain_train_files={tmp_path}/t*", "eval_interval=-1")  # the case sets its kind
    assert problem.startswith(f"command line: grain_train_files={tmp_path}/t*: {tmp_path / 'texts'} ")
    wording("errors", problem)


@pytest.mark.parametrize(
    ("kind", "write"),
    [
        ("txt", write_bytes("ä text".encode())),
        ("parquet", write_table(text=["ä text"])),
        ("arrayrecord", write_records("ä text".encode())),
    ],
)
def test_a_file_of_texts(kind: str, write: Write, tmp_path: Path) -> None:
    write(tmp_path / "texts")
    assert not problems_of(f"grain_train_files={tmp_path}/t*", f"grain_file_type={kind}", "eval_interval=-1")


def test_a_config_without_files(wording: Wording) -> None:
    [problem] = problems_of("eval_interval=2", "grain_eval_files=")
    assert "grain_eval_files is empty" in problem
    wording("errors", problem)


def test_a_tokenizer_that_does_not_fit_the_vocabulary(tmp_path: Path, wording: Wording) -> None:
    def reported(**words: object) -> list[str]:
        named = [f"{key}={value}" for key, value in words.items()]
        return list(find_data_problems(load_train_config(CONFIG_ROOT / "cases" / "08_packing.yml", named)))

    [problem] = reported(vocab_size=258)
    assert "vocab_size=258 is less than the 259 " in problem
    wording("errors", problem)
    model = BytesIO()
    texts = ["one text", "another", "the last of them"] * 20
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=32, minloglevel=2, hard_vocab_limit=False
    )
    path = tmp_path / "m.model"
    path.write_bytes(model.getvalue())
    size = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()).vocab_size()
    assert not reported(tokenizer_path=path, vocab_size=size)
    [problem] = reported(tokenizer_path=path, vocab_size=size - 1)
    assert f"vocab_size={size - 1} is less than the {size} " in problem
    assert problem.endswith(str(path))


def test_a_file_that_is_not_a_tokenizer(tmp_path: Path, wording: Wording) -> None:
    path = tmp_path / "m.model"
    [problem] = problems_of(f"tokenizer_path={path}")
    assert problem.startswith(f"command line: tokenizer_path={path}: ")
    wording("errors", problem)
    path.write_bytes(b"no model")
    [problem] = problems_of(f"tokenizer_path={path}")
    assert problem.startswith(f"command line: tokenizer_path={path}: ")
    wording("errors", problem)


def test_files_of_other_machines_and_of_maxtext_are_not_checked() -> None:
    words = "grain_train_files=/nowhere/*.txt", "eval_interval=-1"
    assert problems_of(*words)
    assert not problems_of(*words, target="v6e-32")
    assert not problems_of(*words, comparison="maxtext-linen-vs-nnx")
    assert not problems_of("grain_train_files=gs://bucket/*.txt", "eval_interval=-1")
