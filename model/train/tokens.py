"""Turns text into token ids, with a SentencePiece model or byte by byte."""

from typing import Protocol

import numpy as np
import sentencepiece

from configs.data_checks import place
from configs.schema import TrainConfig


class Tokenizer(Protocol):
    """Encodes text as token ids. The last id is end-of-text, if the tokenizer has one."""

    def encode(self, text: str) -> np.ndarray: ...


class ByteTokenizer:
    """One token per byte of UTF-8, as in ByT5 (Xue et al. 2022): 0 is padding, 1 end-of-text, 3 + b the byte b."""

    def encode(self, text: str) -> np.ndarray:
        return np.append(np.frombuffer(text.encode(), np.uint8).astype(np.int32) + 3, np.int32(1))


class SentencePieceTokenizer:
    """The tokens of a SentencePiece model."""

    def __init__(self, path: str):
        self.model = sentencepiece.SentencePieceProcessor(model_file=str(place(path)))

    def encode(self, text: str) -> np.ndarray:
        return np.asarray(self.model.encode(text, add_eos=self.model.eos_id() >= 0), np.int32)


def make_tokenizer(config: TrainConfig) -> Tokenizer:
    """Return the SentencePiece tokenizer at `tokenizer_path`, or the byte tokenizer if that is empty."""
    return SentencePieceTokenizer(config.tokenizer_path) if config.tokenizer_path else ByteTokenizer()
