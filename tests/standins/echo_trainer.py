"""A fourth kind of trainer for tests: all that a new one must have."""

import sys
from pathlib import Path
from typing import Self

from configs.comparison import Arm
from configs.custom_trainer import CommandTemplate
from configs.schema import TrainConfig
from tasks.records.plan import Invocation
from tasks.resolve.trainers.trainer import Checkout, Trainer

ROW = "completed step: 0, seconds: 1.000, TFLOP/s/device: 1.000, Tokens/s/device: 1.000, total_weights: 1, loss: "
PROGRAM = f"import sys; print('{ROW}' + sys.argv[1])"


class EchoTrainer(Trainer):
    """Prints one step with the config's learning rate as its loss."""

    name = "echo"
    title = "the echo"

    @classmethod
    def find(cls, arm: Arm, template: CommandTemplate | None, cache: Path, checkout: Checkout | None) -> Self:
        """Return the trainer of every arm."""
        return cls(commit=None, dirty=False, versions={"echo": "1"})

    def invoke(self, config: TrainConfig, directory: Path, *, in_pod: bool, alone: bool) -> Invocation:
        """Return the invocation."""
        return Invocation(argv=(sys.executable, "-c", PROGRAM, f"{config.learning_rate:.3f}"))


TRAINER = EchoTrainer
