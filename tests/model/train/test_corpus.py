"""Batches of texts: their content, the position after a stop, and invalid files."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import jax
import numpy as np
import polars as pl
import pytest
import sentencepiece
from array_record.python.array_record_module import ArrayRecordWriter
from etils import epath

from configs.errors import ConfigError
from configs.schema import TrainConfig
from model.decoder.sharding import make_mesh
from model.train import checkpoint
from model.train.batch import Batch
from model.train.corpus import CutTexts
from model.train.data_source import DataSource, make_source
from model.train.loop import train
from model.train.stop import StopSignal
from model.train.tokens import ByteTokenizer
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

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
    """Add the texts of a batch's sequences, reconstructed from its targets and segments."""
    arrays = map(np.asarray, (batch.inputs, batch.targets, batch.segment_ids, batch.positions))
    for inputs, targets, segments, positions in zip(*arrays, strict=True):
        for number in range(1, segments.max() + 1):
            held = segments == number
            ids = [int(inputs[held][0]), *targets[held].tolist()]
            ends.add(bytes(token - 3 for token in ids if token >= 3).decode(errors="replace"))
            assert positions[held].tolist() == list(range(held.sum()))


def test_every_text_is_in_a_batch_and_padding_does_not_count(packing: Callable[..., TrainConfig]) -> None:
    source, seen, full = open_source(packing()), set[str](), []
    for _ in range(12):
        batch = source.next()
        weights = np.asarray(batch.weights)
        assert np.array_equal(weights == 1, np.asarray(batch.segment_ids) > 0)
        full.append(int(weights.sum()) == batch.inputs.size)
        texts_of(batch, seen)
    assert not all(full)
    assert {text for text in TEXTS if len(text) < 16} <= seen
    long = TEXTS[2].encode()
    # pieces of 17 tokens that overlap by one: every byte but the first is predicted once
    pieces = {long[start : start + 17].decode(errors="replace") for start in range(0, len(long), 16)}
    assert pieces <= seen


@pytest.mark.long
def test_files_of_all_three_formats_contain_the_same_texts_here_and_in_a_bucket(
    packing: Callable[..., TrainConfig], tmp_path: Path, gcs_url: str
) -> None:
    pl.DataFrame({"text": TEXTS}).write_parquet(tmp_path / "texts.parquet")
    writer = ArrayRecordWriter(str(tmp_path / "texts.arrayrecord"), "group_size:1")
    for text in TEXTS:
        writer.write(text.encode())
    writer.close()
    found = []
    for kind in ("txt", "parquet", "arrayrecord"):
        (epath.Path(gcs_url) / f"texts.{kind}").write_bytes((tmp_path / f"texts.{kind}").read_bytes())
        for folder in (tmp_path, gcs_url):
            files = {"grain_file_type": kind, "grain_train_files": f"{folder}/*.{kind}"}
            source, seen = open_source(packing(**files)), set[str]()
            for _ in range(12):
                texts_of(source.next(), seen)
            found.append(seen)
    assert all(seen == found[0] for seen in found)


def test_a_replaced_object_is_copied_again(packing: Callable[..., TrainConfig], gcs_url: str) -> None:
    held, seen = epath.Path(gcs_url) / "texts.txt", set[str]()
    files = {"grain_train_files": f"{gcs_url}/texts.txt"}
    held.write_text("before")
    open_source(packing(**files))
    held.write_text("changed")
    texts_of(open_source(packing(**files)).next(), seen)
    assert seen == {"changed"}


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("{url}/*.txt", "there is no such file"),
        ("{url}/**/*.txt", "Recursive `\\*\\*` pattern not supported"),
        ("gs://nowhere/*.txt", "there is no such file"),
        ("gs://blind/*.txt", "does not have storage.objects.list access"),
    ],
)
def test_an_unreadable_bucket(pattern: str, message: str, packing: Callable[..., TrainConfig], gcs_url: str) -> None:
    with pytest.raises(ConfigError, match=f"grain_train_files=gs://.*: .*{message}"):
        open_source(packing(grain_train_files=pattern.format(url=gcs_url)))


def test_nulls_of_a_parquet_file_are_empty_texts(packing: Callable[..., TrainConfig], tmp_path: Path) -> None:
    pl.DataFrame({"text": [None, "a text", None, "another"]}).write_parquet(tmp_path / "texts.parquet")
    files = {"grain_file_type": "parquet", "grain_train_files": f"{tmp_path}/*.parquet"}
    source, seen = open_source(packing(**files)), set[str]()
    for _ in range(3):
        texts_of(source.next(), seen)
    assert seen == {"a text", "another"}


def test_a_record_in_the_middle_that_is_not_text(packing: Callable[..., TrainConfig], tmp_path: Path) -> None:
    """The check before launch reads a file's first record only."""
    writer = ArrayRecordWriter(str(tmp_path / "x.arrayrecord"), "group_size:1")
    for record in (b"a text", b"caf\xe9"):
        writer.write(record)
    writer.close()
    files = dict.fromkeys(("grain_train_files", "grain_eval_files"), f"{tmp_path}/*.arrayrecord")
    config = packing(**files, grain_file_type="arrayrecord", eval_interval=1)
    with pytest.raises(ConfigError, match=r"grain_eval_files: .*UTF-8: b'caf\\xe9'"):
        make_source(config, make_mesh(config, jax.devices()[:1]), evaluation=True).next()


def test_the_search_for_a_batch_ends_if_all_texts_are_empty(wording: Wording) -> None:
    cut = CutTexts(ByteTokenizer(), 16, "grain_train_files")
    assert not any(cut.flat_map(b"") for _ in range(9_999))
    assert cut.flat_map("a text")
    assert not any(cut.flat_map(None) for _ in range(10_000))
    with pytest.raises(ConfigError, match="grain_train_files: 10,000 texts ") as error:
        cut.flat_map("")
    wording("errors", error.value)


def test_reading_continues_at_the_checkpoints_position(packing: Callable[..., TrainConfig], tmp_path: Path) -> None:
    config = packing()
    source, fresh = open_source(config), open_source(config)
    for _ in range(3):
        source.next()
    manager = checkpoint.make_manager(config, epath.Path(tmp_path / "checkpoints"))
    checkpoint.save(config, manager, 2, {"x": jax.numpy.zeros(1)}, source.iterator, force=True)
    manager.wait_until_finished()
    expected = [np.asarray(source.next().inputs) for _ in range(4)]
    checkpoint.restore_position(manager, 2, fresh.iterator)
    manager.close()
    assert all(np.array_equal(np.asarray(fresh.next().inputs), batch) for batch in expected)
    assert len({batch.tobytes() for batch in expected}) > 1


@pytest.mark.long
def test_a_resumed_run_reads_on_and_ends_like_an_uninterrupted_one(
    packing: Callable[..., TrainConfig], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves that the data position is restored, because every batch is different."""
    with caplog.at_level("INFO", logger="absl"):
        config = packing(base_output_directory=tmp_path, resume_after_step=2, steps=5, pure_nnx=True)
        assert train(config, StopSignal()) == 0
    assert "same bits in all 39 arrays" in caplog.text


def test_tokens_of_a_trained_sentencepiece_model(packing: Callable[..., TrainConfig], tmp_path: Path) -> None:
    model = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 20), model_writer=model, vocab_size=40, minloglevel=2, hard_vocab_limit=False
    )
    (tmp_path / "m.model").write_bytes(model.getvalue())
    named = {"tokenizer_path": str(tmp_path / "m.model")}
    size = sentencepiece.SentencePieceProcessor(model_file=named["tokenizer_path"]).vocab_size()
    batch = open_source(packing(**named, vocab_size=size)).next()
    assert 0 < int(np.max(batch.targets)) < size
    with pytest.raises(ConfigError, match=rf"vocab_size={size - 1} is less than the {size} tokens"):
        open_source(packing(**named, vocab_size=size - 1))
