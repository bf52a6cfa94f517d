"""Runs from the files of experiment trackers, which their own libraries wrote: make_tracker_samples.py."""

import json
import sqlite3
import tarfile
from pathlib import Path

import pytest

from tasks.ingest.given_logs import open_arms
from tasks.ingest.trackers.find_tracked import describe, find_tracked
from tasks.scrape.window import LogFormatError
from tests.tasks.ingest.make_tracker_samples import STEPS, loss_of, norm_of

ARCHIVE = Path("tests/samples/trackers.tar.gz")
ONE_RUN = (
    "csv", "json", "mlflow-db", "mlflow-files", "tb-maxtext", "tb-parts", "tb-plain", "tb-restarted", "tb-tensors",
    "wandb-failed", "wandb-long", "wandb-nested", "wandb-parts", "wandb-steps",
)  # fmt: skip
FLOAT32 = 1e-7  # TensorBoard's precision


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize("name", ONE_RUN)
def test_every_row_is_read(samples: Path, name: str) -> None:
    with open_arms(([str(samples / name)], [f"{samples / 'trackio'}:r2"])) as arms:
        (run,) = arms.baseline
    rows = run.reading.steps.select("step", "loss", "grad_norm").rows()
    assert [step for step, *_ in rows] == list(range(STEPS))
    for step, loss, norm in rows:
        assert loss == pytest.approx(loss_of(step), rel=FLOAT32)
        assert norm == pytest.approx(norm_of(step), rel=FLOAT32)
    assert run.reading.coverage.step_lines_parsed == STEPS
    assert not run.reading.coverage.unread
    assert arms.candidate[0].reading.steps["loss"].to_list() == [loss_of(step, 2) for step in range(STEPS)]


@pytest.mark.parametrize("name", ["tb-plain", "tb-tensors", "wandb-steps"])
def test_step_times(samples: Path, name: str) -> None:
    """TensorBoard's wall times are 1/8 s apart; W&B was given 1/8 s as `perf/step_time`."""
    with open_arms(([str(samples / name)], [str(samples / "csv")])) as arms:
        seconds = arms.baseline[0].reading.steps["seconds"].to_list()
    assert seconds[1:] == [0.125] * (STEPS - 1)
    assert seconds[0] == (0.125 if name == "wandb-steps" else None)


def test_times_that_rows_share_are_no_step_times(samples: Path) -> None:
    """MLflow's folders were written within one millisecond."""
    with open_arms(([str(samples / "mlflow-files")], [str(samples / "csv")])) as arms:
        assert arms.baseline[0].reading.steps["seconds"].null_count() == STEPS


@pytest.mark.parametrize("name", ["csv", "tb-parts", "wandb-failed"])
def test_evaluations_stand_apart(samples: Path, name: str) -> None:
    other = "json" if name == "csv" else "csv"
    with open_arms(([str(samples / name)], [str(samples / other)])) as arms:
        assert [(one["step"], one["loss"]) for one in arms.baseline[0].reading.evals] == [(11, 2.5)]


def test_settings_and_ends(samples: Path) -> None:
    names = ("wandb-steps", "wandb-failed", "mlflow-db", "tb-plain")
    read = {}
    for name in names:
        with open_arms(([str(samples / name)], [str(samples / "csv")])) as arms:
            read[name] = arms.baseline[0].reading
    assert read["wandb-steps"].config == {"lr": "0.001", "opt/name": "adam"}
    assert read["mlflow-db"].config == {"lr": "0.001"}
    assert [read[name].coverage.complete for name in names] == [True, True, True, False]
    assert read["wandb-failed"].exit_code == 3
    assert read["wandb-failed"].has_died
    assert not read["wandb-steps"].has_died


def test_it_says_what_it_read(samples: Path) -> None:
    assert describe(find_tracked(str(samples / "tb-parts"))) == (
        "read 2 TensorBoard files: 12 steps of loss, grad_norm, step time from wall times, evaluations"
    )
    assert describe(find_tracked(str(samples / "mlflow-two"))).startswith("read 1 MLflow file (2 runs): 24 steps of ")


def test_unknown_columns_are_named_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("step,cross_entropy,zeta\n0,2.5,1\n1,2.25,2\n")
    assert describe(find_tracked(str(path))).endswith(
        "2 steps of no metric that maxview knows; under their own names: cross_entropy, zeta"
    )
    with open_arms(([str(path)], [str(_json(tmp_path / "b", 2.0))])) as arms:
        steps = arms.baseline[0].reading.steps
    assert steps["loss"].null_count() == 2
    assert steps["cross_entropy"].to_list() == [2.5, 2.25]
    assert arms.baseline[0].reading.coverage.unknown_keys == ("cross_entropy", "zeta")


def _json(folder: Path, loss: float) -> Path:
    folder.mkdir()
    (folder / "metrics.jsonl").write_text("".join(json.dumps({"step": n, "loss": loss - n}) + "\n" for n in range(3)))
    return folder


def test_a_database_has_named_runs(samples: Path) -> None:
    database = samples / "mlflow-two" / "mlflow.db"
    with open_arms(([f"{database}:r1"], [f"{database}:r2"])) as arms:
        assert arms.names == ("r1", "r2")
        losses = [side[0].reading.steps["loss"].to_list() for side in (arms.baseline, arms.candidate)]
    assert losses == [[loss_of(step, seed) for step in range(STEPS)] for seed in (1, 2)]
    with pytest.raises(LogFormatError, match=r"has no run 'r3'; its runs: r1, r2: maxview ingest .*:NAME"):
        find_tracked(f"{database}:r3")


def test_trackers_that_disagree(samples: Path, tmp_path: Path) -> None:
    """TensorBoard's float32 and CSV's numbers are of one run; another loss is refused."""
    (tmp_path / "events.out.tfevents.1").write_bytes(next((samples / "tb-plain").iterdir()).read_bytes())
    lines = ["step,loss"] + [f"{step},{loss_of(step)}" for step in range(STEPS)]
    (tmp_path / "metrics.csv").write_text("\n".join(lines) + "\n")
    assert len(find_tracked(str(tmp_path))) == 1
    (tmp_path / "metrics.csv").write_text("\n".join([*lines[:-1], "11,9.5"]) + "\n")
    with pytest.raises(LogFormatError, match=r"loss of step 11 is 1\.2562\d* in TensorBoard and 9\.5 in CSV; give one"):
        find_tracked(str(tmp_path))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: None, "is a training log|none of 0 files|contains no file"),
        (
            lambda folder: (folder / "events.out.tfevents.1").write_bytes(b""),
            "hold no number of a step; give the folder",
        ),
        (lambda folder: (folder / "events.out.tfevents.1").write_bytes(b"x" * 99), "is a damaged TensorBoard file"),
        (lambda folder: (folder / "run-a.wandb").write_bytes(b"x" * 99), "is a damaged W&B file: .*; copy it again"),
        (lambda folder: (folder / "a.csv").write_text("step,loss\nx,1\n"), "a.csv:2: has no step in its column step"),
        (lambda folder: (folder / "trainer_state.json").write_text("{}"), "is a damaged trainer state"),
        (lambda folder: (folder / "notes.txt").write_text("hello\n"), "none of 1 files is a training log"),
    ],
)
def test_unusable_places(tmp_path: Path, make: object, message: str) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    make(folder)  # type: ignore[operator]
    with (
        pytest.raises(LogFormatError, match=message) as caught,
        open_arms(([str(folder)], [str(_json(tmp_path / "b", 2.0))])),
    ):
        pass
    assert "\n" not in str(caught.value)


def test_a_run_folder_with_log_and_metrics_is_one_run(logs: object, tmp_path: Path) -> None:
    folder = _json(tmp_path / "a", 3.0)
    (folder / "log.txt").write_bytes(logs.framed(*logs.steps(3)))  # type: ignore[attr-defined]
    with open_arms(([str(folder)], [str(_json(tmp_path / "b", 2.0))])) as arms:
        assert [run.reading.format for run in arms.baseline] == ["maxtext"]


def test_a_trainer_state_of_hugging_face(tmp_path: Path) -> None:
    for last in (2, 4):
        rows = [{"step": n, "loss": loss_of(n), "grad_norm": 1.0, "epoch": n / 4} for n in range(1, last + 1)]
        rows += [{"step": last, "eval_loss": 2.5, "eval_runtime": 1.0, "epoch": 1.0}]
        state = {"log_history": rows, "global_step": last, "max_steps": 4}
        (tmp_path / f"checkpoint-{last}").mkdir()
        (tmp_path / f"checkpoint-{last}" / "trainer_state.json").write_text(json.dumps(state))
    (run,) = find_tracked(str(tmp_path))
    assert run.finished
    assert {step: row["loss"] for step, row in run.rows.items()} == {n: loss_of(n) for n in range(1, 5)}


def test_another_database_is_no_tracker(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute("create table metrics (x)")
    assert find_tracked(str(tmp_path)) == []
