"""The job of a cluster that times both programs: its command, its obstacles, and its result."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from configs.backends.jobset import JobSet
from configs.backends.slurm import Slurm
from tasks.experiments.interleave import TurnLimits
from tasks.experiments.turns_job import find_obstacle, plan_turns, read_turns
from tasks.records.plan import RunPlan
from tasks.resolve.trainers.trainer import CONFIG_IN_POD
from tasks.store.store import Store

pytestmark = pytest.mark.flows

LIMITS = TurnLimits(chance=0.005, tolerance=0.015, least=0.005, limit_s=1.0)
IN_IMAGE = ("python", "-m", "model.train", CONFIG_IN_POD)


def make_plan(arm: str, launch: Slurm | JobSet, **changes: Any) -> RunPlan:
    fields: dict[str, Any] = {
        "comparison": "c", "case": "01_base", "arm": arm, "repeat": 0, "trainer": "maxview", "target": "t",
        "backend": launch.backend, "config": {"steps": 6, "base_output_directory": f"/out/runs/{arm}"}, "origins": {},
        "commit": None, "dirty": False, "versions": {}, "environment": {}, "argv": (sys.executable, "-c", "pass"),
        "time_limit_s": 60, "run_name": arm, "directory": f"/out/runs/{arm}", "identity": arm, "launch": launch,
    }  # fmt: skip
    return RunPlan(**(fields | changes))


def jobset(**changes: Any) -> JobSet:
    place = {"cluster": "c", "project": "p", "zone": "us-east5-b", "image": "gcr.io/p/t:1"}
    return JobSet.model_validate(place | changes)


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        (Slurm(partition="gpu", nodes=2), Slurm(partition="gpu", nodes=2), "turns need runs of one process"),
        (jobset(topology="v6e:4x8"), jobset(topology="v6e:4x8"), "turns need runs of one process"),
        (jobset(gpus=8), jobset(gpus=8, image="gcr.io/p/t:2"), "on other machines or in other images"),
        (jobset(gpus=8), jobset(gpus=8), ""),
        (jobset(topology="v6e:2x2"), jobset(topology="v6e:2x2"), ""),
        (Slurm(partition="gpu", gres="gpu:8"), Slurm(partition="gpu", gres="gpu:8"), ""),
    ],
)
def test_one_job_needs_one_image_and_one_process(left: Any, right: Any, said: str) -> None:
    found = find_obstacle((make_plan("a", left), make_plan("b", right)))
    assert said in found
    assert bool(said) == bool(found)


def test_a_job_in_an_image_contains_no_path_of_this_machine(tmp_path: Path) -> None:
    plans = make_plan("a", jobset(gpus=8), argv=IN_IMAGE), make_plan("b", jobset(gpus=8), argv=IN_IMAGE)
    job = plan_turns(plans, LIMITS, Store(tmp_path))
    *words, specification = job.argv
    assert words == ["python", "-m", "maxview_probe.turns.record_and_time"]
    assert job.launch == plans[1].launch
    for private in ("/out", sys.executable, CONFIG_IN_POD):
        assert private not in specification
    (config,) = json.loads(specification)["arms"][0]["files"]
    assert json.loads(specification)["arms"][0]["argv"] == ["python", "-m", "model.train", config]


def test_a_trainer_without_a_step_is_named(tmp_path: Path) -> None:
    settings = Slurm(partition="main")
    job = plan_turns((make_plan("a", settings), make_plan("b", settings)), LIMITS, Store(tmp_path))
    cwd_exists = [word.replace("/out/runs", str(tmp_path)) for word in job.argv]
    done = subprocess.run(cwd_exists, capture_output=True, text=True, check=True)
    log = tmp_path / "log.txt"
    log.write_text(f"XPK Start: \n{done.stdout}XPK End: \nEXIT_CODE=0\n")
    said = "a: the step was not recorded: its process ended before a step, see the log"
    assert read_turns(log, LIMITS).problem == said


def test_a_job_that_died_leaves_its_last_line(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("XPK Start: \n/bin/python: No module named tasks.experiments\nXPK End: \nEXIT_CODE=1\n")
    said = "the job of the turns left no result (/bin/python: No module named tasks.experiments)"
    assert read_turns(log, LIMITS).problem == said
