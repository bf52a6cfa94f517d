"""Evaluates a state on the evaluation data, and logs in MaxText's format."""

import time
from typing import NamedTuple

import jax
import numpy as np
from absl import logging

from model.decoder.params import Tree
from model.train.data_source import make_source
from model.train.step import Setup, compile_eval


class Evaluation(NamedTuple):
    """The compiled evaluation of a run."""

    setup: Setup
    program: jax.stages.Compiled

    def run(self, step: int, state: Tree) -> float:
        """Return the mean loss after step `step`, weighted as in training. Every evaluation uses the same batches."""
        logging.info("Starting eval after train step %d", step)
        config, losses, weights = self.setup.config, [], []
        source = make_source(config, self.setup.mesh, evaluation=True)
        for number in range(config.eval_steps):
            started = time.perf_counter()
            metrics = jax.device_get(self.program(state, source.next()))
            losses.append(metrics["loss"])
            weights.append(metrics["total_weights"])
            logging.info("Completed eval step: %d, seconds: %.3f", number, time.perf_counter() - started)
        loss = float(np.average(losses, weights=weights))
        logging.info("Completed eval after train step %d, loss=%.3f, total_weights=%d", step, loss, sum(weights))
        return loss


def make_evaluation(setup: Setup) -> Evaluation | None:
    """Compile the evaluation; return None if `eval_interval` is -1."""
    if setup.config.eval_interval == -1:
        return None
    return Evaluation(setup, compile_eval(setup))
