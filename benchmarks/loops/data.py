"""Tokens of a small language, drawn by NumPy: input, the step's number; output, its batch."""

import numpy as np

VOCABULARY, LENGTH, ROWS = 17, 8, 8


def batch_of(step: int, rows: int = ROWS, seed: int = 0) -> dict[str, np.ndarray]:
    """Return the tokens of a step, and each token's successor."""
    drawn = np.random.default_rng([seed, step]).integers(0, VOCABULARY, (rows, LENGTH + 1))
    drawn[:, 1::2] = (drawn[:, :-1:2] * 3 + 1) % VOCABULARY
    return {"inputs": drawn[:, :-1].astype(np.int32), "targets": drawn[:, 1:].astype(np.int32)}
