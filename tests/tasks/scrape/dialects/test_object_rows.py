"""JSON lines, Hugging Face's Trainer, AXLearn, Levanter and NeMo's bars: the rows that their sources print."""

import json
from typing import Any

import pytest

from tasks.records.log_reading import RunReading
from tasks.scrape.read_log import scrape_text

AXLEARN = "I0708 21:26:35.123456 140 trainer.py:425] SpmdTrainer process   0 step {:8d}] {}"
LEVANTER = "2025-09-26T12:04:0{} - 0 - levanter.json_logger - json_logger.py:60 - INFO :: {}"
BAR = (
    "Epoch 0:   1%|▏         | {}/77225 [9:07:58<878:01:48, 41.36s/it, loss=3.1, v_num=, reduced_train_loss={}, "
    "global_step={}, consumed_samples=1.63e+6]"
)


def read(*lines: str) -> RunReading:
    return scrape_text("".join(f"{line}\n" for line in lines).encode(), name="x").runs[0]


def rows(run: RunReading, *columns: str) -> list[tuple[Any, ...]]:
    return run.steps.select(columns or ("step", "loss")).rows()


@pytest.mark.parametrize(
    "form",
    [
        lambda step, loss: {"step": step, "loss": loss},
        lambda step, loss: {"_step": step, "train/loss": loss, "_runtime": 3.5},
        lambda step, loss: {"train": {"loss": loss}, "global_step": float(step)},
        lambda step, loss: {"iteration": step, "training_loss": str(loss), "phase": "train"},
        lambda step, loss: {"loss": loss, "lr": 0.1, "step": step, "time": "2026-01-01", "ok": True},
    ],
)
def test_json_lines(form: Any) -> None:
    run = read("Starting", *(json.dumps(form(step, 4.0 - step / 8)) for step in range(5)))
    assert run.format == "json_lines"
    assert rows(run) == [(step, 4.0 - step / 8) for step in range(5)]
    assert run.coverage.step_lines_parsed == 5


def test_json_rows_of_one_step_are_one_and_evaluations_stand_apart() -> None:
    run = read(
        '{"step": 1, "loss": 2.5}', '{"step": 1, "grad_norm": 0.5}', '{"step": 1, "val/loss": 2.75}',
        '{"step": 2, "loss": NaN}', '{"step": 2, "loss": 2.',
    )  # fmt: skip
    assert str(rows(run, "step", "loss", "grad_norm")) == "[(1, 2.5, 0.5), (2, nan, None)]"
    assert [(one["step"], one["loss"]) for one in run.evals] == [(1, 2.75)]
    assert [line.line for line in run.coverage.unread] == [5]


def test_an_evaluation_without_a_loss_is_one() -> None:
    """google/flax#264: an evaluation that drops rows has another accuracy, and the same losses."""
    run = read('{"step": 1, "loss": 2.5}', '{"step": 1, "eval_accuracy": 0.575}', '{"step": 2, "loss": 2.25}')
    assert [(one["step"], one["accuracy"]) for one in run.evals] == [(1, 0.575)]
    assert str(rows(run, "step", "loss")) == "[(1, 2.5), (2, 2.25)]"


def test_json_rows_that_share_a_line_are_all_read() -> None:
    lines = [f'{{"step": {step}, "loss": {4 - step / 8}, "note": "größer"}}' for step in range(4)]
    run = read(lines[0], lines[1] + lines[2], "INFO " + lines[3] + " done")
    assert rows(run) == [(step, 4 - step / 8) for step in range(4)]


def test_maxtext_with_json_between_its_rows_stays_maxtext(logs: Any) -> None:
    text = b'{"step": 0, "loss": 1.5}\n' + logs.framed(*logs.steps(3))
    assert scrape_text(text, name="x").format == "maxtext"


def test_hugging_face() -> None:
    run = read(
        "  3%|▎         | 1/30 [00:00<00:08,  3.30it/s]{'loss': 2.4561, 'grad_norm': 1.9218124151229858, "
        "'learning_rate': 4.8e-05, 'epoch': 0.1}",
        "{'loss': 2.3, 'grad_norm': nan, 'learning_rate': 4.6e-05, 'epoch': 0.2}",
        "{'eval_loss': 2.25, 'eval_runtime': 0.11, 'eval_samples_per_second': 90.0, 'epoch': 0.2}",
        "{'loss': '2.25', 'grad_norm': '1.5', 'learning_rate': '4.4e-05', 'epoch': '0.3'}",  # since version 5
        "{'loss': 0.69, 'rewards/chosen': 0.01, 'logps/rejected': -120.5, 'epoch': 0.4}",  # TRL
        "{'train_runtime': 12.3, 'train_samples_per_second': 2.4, 'train_loss': 2.1, 'epoch': 3.0}",
    )
    assert run.format == "hugging_face"
    assert rows(run) == [(1, 2.4561), (2, 2.3), (3, 2.25), (4, 0.69)]
    assert run.steps["grad_norm"].to_list()[::2] == [1.9218124151229858, 1.5]
    assert run.steps["logps/rejected"].to_list() == [None, None, None, -120.5]
    assert [(one["step"], one["loss"]) for one in run.evals] == [(2, 2.25)]
    assert run.coverage.complete


def test_dictionaries_with_a_step() -> None:
    run = read("{'step': 10, 'loss': 2.5}", "{'step': 20, 'loss': 2.25}", "{'step': 20, 'acc': 0.5}")
    assert rows(run, "step", "loss", "acc") == [(10, 2.5, None), (20, 2.25, 0.5)]


def test_a_torn_dictionary_is_no_row() -> None:
    run = read("{'loss': 2.3, 'epoch': 0.2}", "{'loss': 2.2, 'grad_norm': 1.5, 'epo", "{'loss': 2.1, 'epoch': 0.4}")
    assert [loss for _, loss in rows(run)] == [2.3, 2.1]
    assert [line.line for line in run.coverage.unread] == [2]


def test_axlearn() -> None:
    run = read(
        AXLEARN.format(0, "loss=10.826403 aux={'token_accuracy': 0.5, 'counts': 'T(2,)', 'inner': {'z_loss': 1e-05}}"),
        AXLEARN.format(1, "loss=10.75 aux={}"),
        AXLEARN.format(100, "loss=nan aux={'token_accuracy': 0.25}"),
        AXLEARN.format(100, "Average step time: 0.52 seconds"),
        AXLEARN.format(200, "loss=9.5 aux={'token_accuracy': 0.2"),
        AXLEARN.format(200, "Reached max_step=200. Stopping"),
    )
    assert run.format == "axlearn"
    assert str(rows(run, "step", "seconds", "loss")) == "[(0, None, 10.826403), (1, None, 10.75), (100, 0.52, nan)]"
    assert run.steps["token_accuracy"].to_list() == [0.5, None, 0.25]
    assert run.steps["z_loss"].to_list() == [1e-05, None, None]
    assert [line.line for line in run.coverage.unread] == [5]


def test_levanter_prints_json() -> None:
    def event(second: int, event: str, **more: Any) -> str:
        return LEVANTER.format(second, json.dumps({"tracker": "json_logger", "event": event, **more}))

    run = read(
        event(0, "hparams", hparams={"step": 3}),
        event(1, "log", step=0, metrics={"train/loss": 10.5, "global_step": 0}),
        event(1, "log", step=0, metrics={"throughput/duration": 0.5, "optim/learning_rate": 0.125}),
        event(2, "log", step=1, metrics={"train/loss": 10.25, "eval/loss": 9.5}),
        event(3, "finish", summary={"global_step": 1}),
    )
    assert rows(run, "step", "seconds", "loss") == [(0, 0.5, 10.5), (1, None, 10.25)]
    assert [(one["step"], one["loss"]) for one in run.evals] == [(1, 9.5)]
    assert run.coverage.complete


def test_levanter_shows_progress() -> None:
    """A bar that shows 12 has finished the steps 0 to 11; `1.23kit` is a rounded number."""
    head = "2025-09-26T12:04:00 - 0 - tqdm_loggable.tqdm_logging - tqdm_logging.py:141 - INFO :: Progress on:train "
    run = read(
        head + "12.0it/400it rate:2.3it/s remaining:02:48 elapsed:00:05 postfix:loss=3.21",
        head + "150it/4.00kit rate:2.3it/s remaining:01:48 elapsed:01:05 postfix:loss=3.01",
        head + "1.23kit/4.00kit rate:2.3it/s remaining:01:48 elapsed:01:05 postfix:loss=2.01",
    )
    assert run.format == "levanter"
    assert rows(run) == [(11, 3.21), (149, 3.01)]
    assert [line.line for line in run.coverage.unread] == [3]


def test_nemo_shows_a_bar() -> None:
    run = read(
        BAR.format(795, "3.090", "794.0") + "\r" + BAR.format(796, "3.080", "795.0"),
        BAR.format(797, "3.070", "796.0").replace("]", ", train_step_timing in s=41.20]"),
        BAR.format(798, "3.060", "7.97e+2"),
    )
    assert run.format == "nemo"
    assert rows(run, "step", "seconds", "loss") == [(794, None, 3.09), (795, None, 3.08), (796, 41.2, 3.07)]
    assert [line.text[:9] for line in run.coverage.unread] == ["Epoch 0: "]
