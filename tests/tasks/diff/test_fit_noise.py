"""The stated noise is fitted to equal runs of several systems."""

import os
import re
from math import exp, log
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from flows.cli.app import call_command
from tasks.diff.examine.fit_noise import NoiseFitError, fit_noise, measure_system

SEEDS = os.environ.get("MAXVIEW_SEEDS")
TIMES = Path(SEEDS).parent / "data" / "mlperf-v5.1-step-times.csv.gz" if SEEDS else None
STEP = "completed step: {}, seconds: {:.3f}, TFLOP/s/device: 0.000, Tokens/s/device: {:.3f}, total_weights: 1, loss: 8.000\n"  # fmt: skip # noqa: E501
HEAD = "System Information: Jax Version: 0.9.2\nNum_devices: 1, shape (1,)\n"


@pytest.mark.parametrize(("scale", "df"), [(0.001, 1.0), (0.004, 5.0)])
def test_a_drawn_distribution_is_found_again(scale: float, df: float) -> None:
    rng = np.random.default_rng(3)
    # a variance of differences is scale² × df ÷ χ²(df); a run's variance is half of it
    scatters = scale * np.sqrt(df / rng.chisquare(df, 600) / 2)
    fit = fit_noise([measure_system(str(n), np.exp(rng.normal(0, one, 10))) for n, one in enumerate(scatters)])
    assert log(fit.equal_runs) == pytest.approx(log(scale), abs=0.15)
    assert log(fit.weight) == pytest.approx(log(df), abs=0.3)


def test_systems_that_do_not_differ_get_the_largest_weight() -> None:
    rng = np.random.default_rng(4)
    fit = fit_noise([measure_system(str(n), np.exp(rng.normal(0, 0.01, 20))) for n in range(200)])
    assert fit.weight > 50
    assert fit.equal_runs == pytest.approx(0.01 * 2**0.5, rel=0.05)


@pytest.mark.skipif(TIMES is None or not TIMES.is_file(), reason="no data beside the folder MAXVIEW_SEEDS")
def test_the_published_systems_give_the_stated_noise() -> None:
    assert TIMES is not None
    table = pl.read_csv(TIMES)
    systems = [
        measure_system(" ".join(map(str, key)), rows.group_by("run").agg(pl.col("step_s").median())["step_s"].to_list())
        for key, rows in table.group_by(["organisation", "system", "benchmark"], maintain_order=True)
    ]
    assert {one.runs for one in systems} <= {9, 10}
    fit = fit_noise(systems)
    stated = yaml.safe_load((Path(__file__).parents[3] / "configs" / "noise.yml").read_text())["gpu"]
    # the file has part of the 83 systems that were fitted to state it
    assert log(fit.equal_runs) == pytest.approx(log(stated["equal_runs"]), abs=0.35)
    assert log(fit.weight) == pytest.approx(log(stated["weight"]), abs=0.4)


def write_runs(folder: Path, *, runs: int, scatter: float, seed: int) -> str:
    """The logs of a system's equal runs."""
    rng = np.random.default_rng(seed)
    folder.mkdir()
    for run in range(runs):
        level = exp(rng.normal(0, scatter))
        steps = [20.0, *(level * (1 + rng.uniform(-0.001, 0.001, 30)))]
        rows = "".join(STEP.format(step, took, 1e6 / took) for step, took in enumerate(steps))
        (folder / f"run-{run}.log").write_text(f"{HEAD}{rows}EXIT_CODE=0\n")
    return str(folder)


def test_the_command_prints_the_entry_of_a_fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleet = [write_runs(tmp_path / f"pod-{n}", runs=5, scatter=0.003, seed=n) for n in range(6)]
    assert call_command(["noise", "fit", *fleet, "--kind", "tpu"]) == 0
    shown = capsys.readouterr().out
    (scale,) = re.findall(r"tpu:\n +equal_runs: (\S+)", shown)
    assert float(scale) == pytest.approx(0.003 * 2**0.5, rel=0.3)
    assert '"6 systems, 5 equal runs each"' in shown
    assert shown.count(" 5 runs ") == 6


def test_what_cannot_be_fitted_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods = [write_runs(tmp_path / f"pod-{n}", runs=2, scatter=0.003, seed=n) for n in range(2)]
    assert call_command(["noise", "fit", *pods]) == 2
    assert "expected 3 or more systems, got 2" in capsys.readouterr().err
    one = write_runs(tmp_path / "one", runs=1, scatter=0.003, seed=9)
    assert call_command(["noise", "fit", *pods, one]) == 2
    assert "one: has one run with a step time" in capsys.readouterr().err
    with pytest.raises(NoiseFitError, match="every digit"):
        measure_system("copies", [1.0, 1.0])
