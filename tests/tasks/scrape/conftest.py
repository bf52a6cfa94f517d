"""Logs for the readers: the founding documents where they are, and small ones made here."""

import os
from pathlib import Path

import pytest

STEP = (
    "completed step: {step}, seconds: {seconds:.3f}, TFLOP/s/device: {tflops:.3f}, Tokens/s/device: {tokens:.3f}, "
    "total_weights: 65536, loss: {loss:.3f}, lm_loss: {loss:.3f}, perplexity: {perplexity:.3f}"
)


class MadeLogs:
    """Pieces of MaxText logs."""

    @staticmethod
    def line(text: str, second: int = 0, source: str = "metric_logger.py:196") -> str:
        """A line as absl prints it."""
        clock = f"{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}.000000"
        return f"I0418 {clock} 135104514455360 {source}] {text}"

    @staticmethod
    def step_text(step: int, *, seconds: float = 0.148, loss: float = 8.125) -> str:
        """The text of a step line as MaxText 0.2.4 prints it."""
        return STEP.format(
            step=step, seconds=seconds, tflops=13.59 / seconds, tokens=2048 / seconds, loss=loss, perplexity=2.0**loss
        )

    @classmethod
    def step(cls, step: int, *, seconds: float = 0.148, loss: float = 8.125) -> str:
        """A step line, one a second."""
        return cls.line(cls.step_text(step, seconds=seconds, loss=loss), second=step)

    @classmethod
    def steps(cls, count: int) -> list[str]:
        """So many step lines."""
        return [cls.step(step, loss=9 - step / 1000) for step in range(count)]

    @staticmethod
    def framed(*lines: str, code: int = 0) -> bytes:
        """The log of a run in an XPK pod that started and ended."""
        return (
            "XPK Start: Sat Apr 18 00:00:00 UTC 2026\n"
            + "".join(f"{line}\n" for line in lines)
            + f"XPK End: Sat Apr 18 01:00:00 UTC 2026\nEXIT_CODE={code}\n"
        ).encode()


@pytest.fixture(scope="session")
def logs() -> type[MadeLogs]:
    """Pieces of MaxText logs, to be put together."""
    return MadeLogs


@pytest.fixture(scope="session")
def seeds() -> Path:
    """The folder of the founding documents."""
    folder = os.environ.get("MAXVIEW_SEEDS")
    if not folder:
        pytest.skip("MAXVIEW_SEEDS does not name the folder of the founding documents")
    return Path(folder)
