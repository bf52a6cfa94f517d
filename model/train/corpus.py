"""Reads text files with grain into packed batches: texts are tokenised, cut to length, and share sequences."""

import mmap
import os
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import grain
import jax
import numpy as np
from absl import logging
from etils import epath
from grain import experimental
from jax.sharding import Mesh

from configs.data_checks import COLUMN, REMOTE, find_here, split_patterns
from configs.errors import ConfigError
from configs.same_run import describe_texts
from configs.schema import TrainConfig
from model.decoder.sharding import MESH_AXES, RULES, global_batch_size
from model.train.batch import Batch
from model.train.run_paths import check_data, find_objects
from model.train.tokens import Tokenizer, make_tokenizer

SHUFFLE_WINDOW, PARALLEL_FILES = 1000, 16  # parquet: texts in a shuffle window, files read in parallel
MAX_EMPTY_TEXTS = 10_000  # consecutive texts without a token to predict
PREFETCHED_BATCHES = 2  # batches prefetched while the device works


class TextLines:
    """A sequence of the non-blank lines of text files; each line is a text. The files are memory-mapped."""

    def __init__(self, paths: Sequence[str]):
        self.places: list[tuple[mmap.mmap, int, int]] = []
        for path in paths:
            with open(path, "rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            begin = 0
            while begin < len(mapped):
                end = mapped.find(b"\n", begin)
                end = len(mapped) if end < 0 else end
                if mapped[begin:end].strip():
                    self.places.append((mapped, begin, end))
                begin = end + 1

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> bytes:
        mapped, begin, end = self.places[index]
        return mapped[begin:end]


class CutTexts(experimental.FlatMapTransform):  # type: ignore[misc]
    """Cuts texts into pieces of at most `length` tokens. Every token except a text's first is a target once."""

    def __init__(self, tokenizer: Tokenizer, length: int, key: str):
        self.tokenizer, self.length, self.key, self.empty_texts = tokenizer, length, key, 0

    def flat_map(self, element: bytes | str | None) -> list[dict[str, np.ndarray]]:
        ids = self.tokenizer.encode(to_text(element, self.key))
        starts = range(0, len(ids) - 1, self.length)
        self.empty_texts = 0 if starts else self.empty_texts + 1
        if self.empty_texts > MAX_EMPTY_TEXTS:  # otherwise grain would search for a batch for ever
            raise ConfigError(
                [f"{self.key}: {MAX_EMPTY_TEXTS:,} texts in a row have no token to predict (name longer texts)"]
            )
        cut = [ids[start : start + self.length + 1] for start in starts]
        return [{"inputs": piece[:-1], "targets": piece[1:]} for piece in cut]


def to_text(record: bytes | str | None, key: str) -> str:
    """Return a record's text; "" for None. Raises ConfigError if the record is not UTF-8. key: for the message."""
    try:
        return record.decode() if isinstance(record, bytes) else record or ""
    except UnicodeDecodeError as error:
        raise ConfigError(
            [f"{key}: a record is not UTF-8: {error.object[:40]!r} (convert it, or name other files)"]
        ) from error


def copy_objects(pattern: str) -> list[str]:
    """Copy the objects of a bucket that match a pattern, unless done before; return the local paths. Raises OSError."""
    cache = Path(tempfile.gettempdir()) / "maxview" / "data"
    cache.mkdir(parents=True, exist_ok=True)
    copies = []
    for there in map(epath.Path, find_objects(pattern)):
        found = there.stat()
        version = zlib.crc32(f"{there} {found.length} {found.mtime}".encode())  # a rewritten object gets a new copy
        here = cache / f"{version:08x}-{there.name}"
        if not here.exists():
            logging.info("copying %s to %s", there, here)
            there.copy(unfinished := here.with_suffix(f".{os.getpid()}.tmp"), overwrite=True)
            unfinished.replace(here)
        copies.append(str(here))
    return copies


def read_texts(config: TrainConfig, paths: list[str], seed: int) -> grain.IterDataset:
    """Return the texts that this process reads, shuffled and repeated without end."""
    mine = slice(jax.process_index(), None, jax.process_count())
    if config.grain_file_type == "parquet":
        files = paths[mine]
        if not files:
            found = f"{len(paths)} files for {jax.process_count()} processes"
            raise ConfigError([f"grain_train_files: {found} (split the texts: at least one file per process)"])
        read = [experimental.ParquetIterDataset(path).map(lambda row: row[COLUMN]) for path in files]
        one = experimental.InterleaveIterDataset(read, cycle_length=min(PARALLEL_FILES, len(read)))
        again = experimental.RepeatIterDataset(one, None)
        return experimental.WindowShuffleIterDataset(again, window_size=SHUFFLE_WINDOW, seed=seed)
    records = TextLines if config.grain_file_type == "txt" else grain.sources.ArrayRecordDataSource
    return grain.MapDataset.source(records(paths)).seed(seed).shuffle()[mine].repeat().to_iter_dataset()


class Corpus:
    """A `DataSource` of packed batches of text. `iterator` has the position in the data."""

    def __init__(self, config: TrainConfig, mesh: Mesh, declared: Batch[jax.ShapeDtypeStruct], *, evaluation: bool):
        check_data(config, copy_objects)
        self.declared = declared
        rows, length = local_rows(config, mesh), config.max_target_length
        key = "grain_eval_files" if evaluation else "grain_train_files"
        patterns = split_patterns(getattr(config, key))
        paths = [path for word in patterns for path in (copy_objects if word.startswith(REMOTE) else find_here)(word)]
        self.described = describe_texts(config, paths, f"{rows} sequences in each of {jax.process_count()}")
        texts = read_texts(config, paths, config.data_shuffle_seed)
        pieces = experimental.FlatMapIterDataset(texts, CutTexts(make_tokenizer(config), length, key))
        lengths, seed = {"inputs": length, "targets": length}, config.data_shuffle_seed
        packed = experimental.FirstFitPackIterDataset(pieces, length_struct=lengths, num_packing_bins=rows, seed=seed)
        batches = packed.batch(rows, drop_remainder=True)
        self.iterator = iter(experimental.ThreadPrefetchIterDataset(batches, prefetch_buffer_size=PREFETCHED_BATCHES))

    def next(self) -> Batch:
        """Return the next batch; each process reads its own sequences."""
        found = next(self.iterator)
        host = Batch(
            inputs=found["inputs"],
            targets=found["targets"],
            positions=found["inputs_positions"],
            segment_ids=found["inputs_segment_ids"],
            weights=(found["targets_segment_ids"] != 0).astype(np.int32),
        )
        placed: Batch = jax.tree.map(
            lambda array, kind: jax.make_array_from_process_local_data(kind.sharding, array, kind.shape),
            host,
            self.declared,
        )
        return placed


def local_rows(config: TrainConfig, mesh: Mesh) -> int:
    """Return the number of sequences of a batch that this process reads.

    Raises ConfigError if two processes would share a sequence.
    """
    axes = RULES["activation_batch"]
    split = [mesh.shape[axis] for axis in MESH_AXES if axis in (axes or ())]
    if int(np.prod(split)) % jax.process_count():
        raise ConfigError(
            [f"dataset_type=grain: {jax.process_count()} processes cannot read a batch that is split over "
             f"{int(np.prod(split))} devices (set ici_data_parallelism × ici_fsdp_parallelism to a multiple)"]
        )  # fmt: skip
    return int(global_batch_size(config, mesh) // jax.process_count())
