"""The pipeline: the schedule of its stages, and equality with a scan."""

from collections.abc import Callable

import jax
import numpy as np
import pytest

from configs.errors import ConfigError
from configs.model_checks import Pipeline
from configs.schema import TrainConfig
from model.decoder.pipeline import last_ticks, schedule_events, work_at
from model.decoder.sharding import make_mesh
from model.train.api import make_api
from model.train.data_source import make_source
from model.train.step import declare_state, init_state, lower_step, make_program

pytestmark = pytest.mark.flows

type MiniConfig = Callable[..., TrainConfig]

# two stages with two chunks each, four microbatches: (chunk, microbatch) of each stage at each tick; None: idle.
# Written by hand: a stage processes two microbatches in its first chunk, then in its second, then the next two.
BY_HAND = [
    [(0, 0), None],
    [(0, 1), (0, 0)],
    [(1, 0), (0, 1)],
    [(1, 1), (1, 0)],
    [(0, 2), (1, 1)],
    [(0, 3), (0, 2)],
    [(1, 2), (0, 3)],
    [(1, 3), (1, 2)],
    [None, (1, 3)],
]


def test_stages_work_in_the_interleaved_order() -> None:
    shape = Pipeline(stages=2, chunks=2, layers=1, microbatches=4)
    for tick, expected in enumerate(BY_HAND):
        work = work_at(shape, tick)
        for stage, said in enumerate(expected):
            if said is not None:
                assert (int(work.chunk_S[stage]), int(work.microbatch_S[stage])) == said, (tick, stage)
    assert last_ticks(shape) == [3, 4, 7, 8]  # when (1, 0), (1, 1), (1, 2), (1, 3) are done on the last stage


def test_the_log_has_the_schedule_of_each_stage() -> None:
    shape = Pipeline(stages=2, chunks=2, layers=1, microbatches=4)
    forward = [
        f"rank {stage} forward {event} tensor {said[0] * 4 + said[1]}"
        for expected in BY_HAND
        for event in ("start", "finished")
        for stage, said in enumerate(expected)
        if said is not None
    ]
    lines = list(schedule_events(shape))
    assert lines[: len(forward)] == forward
    backward = [line for line in lines[len(forward) :] if "start" in line]
    assert backward[:3] == [f"rank {rank} backward start tensor {tensor}" for rank, tensor in ((1, 7), (0, 7), (1, 6))]
    assert (len(lines), len(backward)) == (64, 16)


def test_the_idle_share_falls_with_the_number_of_chunks() -> None:
    """A stage waits for S - 1 ticks, with any number of chunks: the share is (S - 1) / (M · R + S - 1)."""
    for chunks in (1, 4):
        shape = Pipeline(stages=4, chunks=chunks, layers=1, microbatches=8)
        assert last_ticks(shape)[-1] + 1 == 8 * chunks + 3


def one_step(config: TrainConfig, devices: int) -> tuple[float, float]:
    """The loss and the norm of the gradient of the first step."""
    mesh, api = make_mesh(config, jax.devices()[:devices]), make_api(config)
    setup = declare_state(config, api, mesh)
    program = make_program(setup, lower_step(setup))
    _, metrics = program.run(init_state(setup), make_source(config, mesh).next())
    return float(metrics["loss"]), float(metrics["raw_grad_norm"])


@pytest.mark.long
@pytest.mark.by_hand
def test_a_pipeline_equals_a_scan(mini_config: MiniConfig) -> None:
    exact = {"base_num_decoder_layers": 4, "dtype": "float32", "matmul_precision": "highest"}
    pipeline = {"ici_pipeline_parallelism": 2, "ici_tensor_parallelism": 1, "num_pipeline_microbatches": 4}
    piped = one_step(mini_config("12_pipeline", **exact, **pipeline, per_device_batch_size=4), 2)
    scanned = one_step(mini_config("16_f32_exact", **exact, per_device_batch_size=8), 1)
    # the same sums in another order
    np.testing.assert_allclose(piped, scanned, rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base_num_decoder_layers": 6}, "base_num_decoder_layers must be a multiple of ici_pipeline_parallelism"),
        ({"num_pipeline_microbatches": 6}, "num_pipeline_microbatches must be a multiple of ici_pipeline_parallelism"),
        ({"num_experts": 2}, "needs num_experts=1"),
        ({"scan_layers": False}, "needs scan_layers: true"),
        ({"num_pipeline_microbatches": 16}, r"per_device_batch_size=1 gives 8 sequences, which 16 parts cannot share"),
    ],
)
def test_an_impossible_pipeline_is_refused(changes: dict[str, object], message: str, mini_config: MiniConfig) -> None:
    wanted = {"base_num_decoder_layers": 8, "per_device_batch_size": 1} | changes
    with pytest.raises(ConfigError, match=message):
        make_mesh(mini_config("12_pipeline", **wanted), jax.devices())
