"""Texts become batches: what is in them, where reading goes on after a stop, and files that are none."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import jax
import numpy as np
import polars as pl
import pytest
import sentencepiece
from array_record.python.array_record_module import ArrayRecordWriter
from etils import epath

from configs.data_checks import find_data_problems
from configs.errors import ConfigError
from configs.schema import TrainConfig
from model import checkpoint
from model.batch import Batch
from model.data import DataSource, make_source
from model.sharding import make_mesh
from model.stop import StopSignal
from model.train import train

type MiniConfig = Callable[..., TrainConfig]
TEXTS = ["one text", "another", "ä third, which is longer than a sequence of sixteen tokens", "x", "the last of them"]
SIZE = {"vocab_size": 272, "eval_interval": -1}


@pytest.fixture
def packing(mini_config: MiniConfig, tmp_path: Path) -> Callable[..., TrainConfig]:
    """packing(**changes): the case, of five texts in a file."""
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n\n")
    files = {"grain_train_files": str(tmp_path / "texts.txt")}
    return lambda **changes: mini_config("08_packing", **(SIZE | files | changes))


def open_source(config: TrainConfig) -> DataSource:
    return make_source(config, make_mesh(config, jax.devices()[:1]))


def texts_of(batch: Batch, ends: set[str]) -> None:
    """Adds what the batch's sequences hold, text by text, read off its targets and its segments."""
    for row in range(batch.inputs.shape[0]):
        segments = np.asarray(batch.segment_ids[row])
        for number in range(1, segments.max() + 1):
            held = segments == number
            first = int(np.asarray(batch.inputs[row])[held][0])
            ids = [first, *np.asarray(batch.targets[row])[held].tolist()]
            ends.add(bytes(token - 3 for token in ids if token >= 3).decode(errors="replace"))
            assert np.asarray(batch.positions[row])[held].tolist() == list(range(held.sum()))


def test_every_text_is_in_a_batch_and_padding_counts_for_nothing(packing: Callable[..., TrainConfig]) -> None:
    source, seen, full = open_source(packing()), set[str](), []
    for _ in range(12):
        batch = source.next()
        assert np.array_equal(np.asarray(batch.weights) == 1, np.asarray(batch.segment_ids) > 0)
        full.append(int(np.sum(batch.weights)) == batch.inputs.size)
        texts_of(batch, seen)
    assert not all(full)
    assert {text for text in TEXTS if len(text) < 16} <= seen
    long = TEXTS[2].encode()
    # pieces of 17 tokens that overlap by one: every byte but the first is predicted once
    pieces = {long[start : start + 17].decode(errors="replace") for start in range(0, len(long), 16)}
    assert pieces <= seen


def test_files_of_all_three_kinds_hold_the_same_texts(packing: Callable[..., TrainConfig], tmp_path: Path) -> None:
    pl.DataFrame({"text": TEXTS}).write_parquet(tmp_path / "texts.parquet")
    writer = ArrayRecordWriter(str(tmp_path / "texts.arrayrecord"), "group_size:1")
    for text in TEXTS:
        writer.write(text.encode())
    writer.close()
    found = []
    for kind in ("txt", "parquet", "arrayrecord"):
        files = {"grain_file_type": kind, "grain_train_files": str(tmp_path / f"*.{kind}")}
        source, seen = open_source(packing(**files)), set[str]()
        for _ in range(20):
            texts_of(source.next(), seen)
        found.append(seen)
    assert found[0] == found[1] == found[2]


def test_reading_goes_on_where_a_checkpoint_was_saved(packing: Callable[..., TrainConfig], tmp_path: Path) -> None:
    config = packing()
    source, fresh = open_source(config), open_source(config)
    for _ in range(3):
        source.next()
    manager = checkpoint.make_manager(config, epath.Path(tmp_path / "checkpoints"))
    checkpoint.save(config, manager, 2, {"x": jax.numpy.zeros(1)}, source.iterator, force=True)
    manager.wait_until_finished()
    expected = [np.asarray(source.next().inputs) for _ in range(4)]
    checkpoint.restore_place(manager, 2, fresh.iterator)
    manager.close()
    assert all(np.array_equal(np.asarray(fresh.next().inputs), batch) for batch in expected)
    assert len({batch.tobytes() for batch in expected}) > 1


@pytest.mark.long
def test_a_run_that_stops_reads_on_and_ends_as_if_nothing_had_been(
    packing: Callable[..., TrainConfig], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The proof holds only if the data goes on too: every batch is another one."""
    with caplog.at_level("INFO", logger="absl"):
        config = packing(base_output_directory=tmp_path, resume_after_step=2, steps=5, pure_nnx=True)
        assert train(config, StopSignal()) == 0
    assert "all 39 arrays are those of a run without a stop, bit for bit" in caplog.text


@pytest.mark.parametrize(
    ("content", "changes", "message"),
    [
        (None, {}, r"grain_train_files=.*texts\.txt: there is no such file"),
        (b" \n\n", {}, r"texts\.txt is empty"),
        (b"\xff\xfe\x00", {}, r"texts\.txt is no text in UTF-8"),
        (b"text", {"grain_file_type": "parquet"}, r"texts\.txt is no parquet file"),
        (b"text", {"vocab_size": 258}, r"vocab_size=258 is less than the 259 of tokenizer_path"),
        (b"text", {"tokenizer_path": "/nowhere/x.model"}, r"tokenizer_path=/nowhere/x\.model: there is no such file"),
        (b"text", {"eval_interval": 2, "grain_eval_files": ""}, r"grain_eval_files is empty: name the files"),
    ],
)
def test_data_that_cannot_be_read_is_told_before_anything_runs(
    content: bytes | None, changes: dict[str, Any], message: str, packing: Callable[..., TrainConfig], tmp_path: Path
) -> None:
    config = packing(**changes)
    (tmp_path / "texts.txt").unlink()
    if content is not None:
        (tmp_path / "texts.txt").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        raise ConfigError(list(find_data_problems(config)))


def test_a_tokenizer_that_does_not_fit_the_vocabulary(packing: Callable[..., TrainConfig], tmp_path: Path) -> None:
    model = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 20), model_writer=model, vocab_size=40, minloglevel=2, hard_vocab_limit=False
    )
    (tmp_path / "m.model").write_bytes(model.getvalue())
    named = {"tokenizer_path": str(tmp_path / "m.model")}
    size = sentencepiece.SentencePieceProcessor(model_file=named["tokenizer_path"]).vocab_size()
    batch = open_source(packing(**named, vocab_size=size)).next()
    assert 0 < int(np.max(batch.targets)) < size
    with pytest.raises(ConfigError, match=rf"vocab_size={size - 1}: tokenizer_path=.* has {size} tokens"):
        open_source(packing(**named, vocab_size=size - 1))
    (tmp_path / "m.model").write_bytes(b"no model")
    with pytest.raises(ConfigError, match=r"is no SentencePiece model"):
        open_source(packing(**named))
