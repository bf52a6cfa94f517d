"""`maxview ingest --reference … --candidate …`: from logs to the words, the page and the exit status."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from flows.cli.app import call_command

pytestmark = pytest.mark.flows

MARK = ':::MLLOG {"namespace": "", "time_ms": %d, "event_type": "%s", "key": "%s", "value": %s, "metadata": %s}\n'


def mllog(seed: int, *, factor: float = 1.0, batch: int = 16, evaluations: int = 12, status: str = "success") -> str:
    """A run of MLPerf's form that prints its settings, an evaluation every 1600 samples, and how it ended."""
    rng = random.Random(seed)
    high = factor * (1 + rng.gauss(0, 0.001))
    time = 1_760_000_000_000
    lines = [
        MARK % (time, "POINT_IN_TIME", key, json.dumps(value), "{}")
        for key, value in (("seed", seed), ("global_batch_size", batch), ("target_accuracy", 3.5))
    ]
    lines.append(MARK % (time, "INTERVAL_START", "run_start", "null", "{}"))
    for n in range(1, evaluations + 1):
        loss, where = high * 8 * (1600 * n) ** -0.09, json.dumps({"samples_count": 1600 * n})
        lines.append(MARK % (time + 60_000 * n, "POINT_IN_TIME", "eval_accuracy", f"{loss:.6f}", where))
    end = json.dumps({"status": status, "samples_count": 1600 * evaluations})
    lines.append(MARK % (time + 60_000 * evaluations + 1, "INTERVAL_END", "run_stop", "null", end))
    return "".join(lines)


@pytest.fixture
def logs(tmp_path: Path) -> Any:
    """logs(name, [first seed,] count, changes): the files of a side."""

    def write(name: str, first: int, count: int, **changes: Any) -> list[str]:
        paths = [tmp_path / f"{name}-{seed}.log" for seed in range(first, first + count)]
        for path, seed in zip(paths, range(first, first + count), strict=True):
            path.write_text(mllog(seed, **changes))
        return list(map(str, paths))

    return write


def judge(reference: list[str], candidate: list[str], out: Path, *more: str) -> int:
    return call_command(["ingest", "--reference", *reference, "--candidate", *candidate, "--out", str(out), *more])


@pytest.mark.parametrize(
    ("factor", "word", "status"), [(1.0, "same", 0), (1.03, "regressed", 1), (0.97, "improved", 0)]
)
def test_seeds_of_mlperf_logs_are_judged(
    factor: float, word: str, status: int, logs: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference, candidate = logs("seed", 1, 5), logs("new", 11, 5, factor=factor)
    assert judge(reference, candidate, tmp_path / "out", "--json") == status
    record = json.loads(capsys.readouterr().out)
    assert record["verdict"] == word
    assert record["reference"][0]["positions"][:2] == [1600, 3200]
    final, target = record["rows"]
    assert final["effect"] == pytest.approx(factor - 1, abs=0.003)
    assert (target["title"], target["metric"]) == ("Samples to loss 3.5", "to_target")


def test_the_page_is_written_and_named(logs: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert judge(logs("seed", 1, 5), logs("new", 11, 5, factor=1.03), tmp_path / "out") == 1
    page = tmp_path / "out" / "convergence.html"
    assert str(page) in capsys.readouterr().out
    assert page.read_text().count('class="run"') == 5


@pytest.mark.parametrize(
    ("reference", "candidate", "message"),
    [
        ({"count": 2}, {}, "at least 3"),
        ({"odd": {"batch": 32}}, {}, "global_batch_size: 16 → 32"),
        ({}, {"evaluations": 0}, "no loss"),
        ({"odd": {"factor": 3.0}}, {}, "diverged"),
    ],
)
def test_bad_input_is_one_sentence(
    reference: dict[str, Any], candidate: dict[str, Any], message: str, logs: Any, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    left = logs("seed", 1, reference.get("count", 4))
    left += logs("odd", 5, 1, **reference["odd"]) if "odd" in reference else []
    assert judge(left, logs("new", 11, 3, **candidate), tmp_path / "out") == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert message in shown
    assert "Traceback" not in shown


def test_another_batch_size_of_the_candidate_is_a_note(
    logs: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judge(logs("seed", 1, 5), logs("new", 11, 5, batch=32), tmp_path / "out", "--json")
    assert json.loads(capsys.readouterr().out)["notes"] == ["the candidate differs in global_batch_size: 16 → 32"]


ROW = "completed step: {0}, seconds: 0.100, TFLOP/s/device: 1.000, Tokens/s/device: 10.000, total_weights: 1, loss: {1:.5f}\n"  # noqa: E501


def maxtext_log(seed: int, *, parameters: str = "0.10", dtype: str = "float32") -> str:
    """A run of MaxText's form that prints its settings and no evaluation."""
    rng = random.Random(seed)
    high = 1 + rng.gauss(0, 0.001)
    settings = {"init_weights_seed": seed, "dtype": dtype, "steps": 40}
    head = "".join(f"Config param {name}: {value}\n" for name, value in settings.items())
    head += f"number parameters: {parameters} billion\n"
    return head + "".join(ROW.format(step, high * 8 * (step + 1) ** -0.09) for step in range(40))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"dtype": "bfloat16"}, "dtype: float32 → bfloat16"), ({"parameters": "0.20"}, "parameters")],
)
def test_seeds_of_another_model_or_precision_are_refused(
    change: dict[str, str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def write(name: str, seed: int, **more: str) -> str:
        path = tmp_path / f"{name}-{seed}.log"
        path.write_text(maxtext_log(seed, **more))
        return str(path)

    seeds, new = [write("seed", n) for n in range(4)], [write("new", n) for n in range(11, 15)]
    assert judge(seeds, new, tmp_path / "out", "--json") in (0, 3)
    assert json.loads(capsys.readouterr().out)["reference"][0]["unit"] == "steps"  # losses of the steps
    assert judge([*seeds, write("odd", 5, **change)], new, tmp_path / "out") == 2
    assert message in " ".join(capsys.readouterr().err.split())
