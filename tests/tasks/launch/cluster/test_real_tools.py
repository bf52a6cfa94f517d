"""The real xpk and the real kubectl against the cluster on loopback."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.launch import job
from tasks.launch.cluster.handle import ClusterHandle
from tasks.launch.logs import watch
from tasks.records.log_reading import RunEnded
from tasks.records.plan import RunPlan
from tasks.store.directories import RunDirectory

from .test_cluster import ONLY_XPK

pytestmark = pytest.mark.long

XPK = os.environ.get("MAXVIEW_XPK") or shutil.which("xpk")  # before the stand-ins are put on the path
KUBECTL = shutil.which("kubectl")
needs_xpk = pytest.mark.skipif(XPK is None, reason="xpk is not installed: uv tool install xpk==1.16.0, or $MAXVIEW_XPK")
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
SHOWS = (
    "import os, sys; print('completed step: 0, seconds: 0.5, TFLOP/s/device: 1.0, loss: 3.0'); "
    "print(repr(os.environ['GREETING']), sys.argv[1:]); sys.exit(37)"
)


def kubectl(*words: str) -> str:
    assert KUBECTL is not None
    argv = [KUBECTL, "--context", "loopback", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout


@ONLY_XPK
@needs_xpk
@needs_kubectl
def test_xpk_creates_a_workload_that_runs_the_trainer(
    standin: Any, make_plan: Callable[..., RunPlan], directory: RunDirectory, tmp_path: Path
) -> None:
    offline = tmp_path / "offline-xpk"
    offline.write_text(f'#!/bin/sh\nexec {XPK} "$@" --project-number=1\n')  # otherwise it queries the cloud
    offline.chmod(0o755)
    plan = make_plan(SHOWS, argv=(str(offline),), num_slices=2, priority="high")
    launched = job.launch_or_attach(plan, directory, continue_from=Path("/a b/it's"))
    assert isinstance(launched.handle, ClusterHandle)
    jobset = json.loads(kubectl("get", "jobset", launched.handle.job_name, "-o", "json"))
    (spec,) = jobset["spec"]["replicatedJobs"]
    assert jobset["spec"]["failurePolicy"]["maxRestarts"] == 0
    assert (spec["replicas"], spec["template"]["spec"]["completions"]) == (2, 8)
    pod = spec["template"]["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == "high"
    assert pod["terminationGracePeriodSeconds"] == 5
    assert pod["nodeSelector"]["cloud.google.com/gke-tpu-topology"] == "4x8"
    assert pod["containers"][0]["resources"]["limits"] == {"google.com/tpu": 4}
    events = list(watch(job.follow(launched, poll_s=0.1)))
    assert [event.exit_code for event in events if isinstance(event, RunEnded)] == [37]
    log = directory.log.read_text()
    assert repr(plan.environment["GREETING"]) in log
    assert "'--continue-from', \"/a b/it's\"]" in log
    job.stop(launched.handle)
    assert kubectl("get", "jobsets,pods", "-o", "name") == ""


@needs_kubectl
def test_kubectl_shows_the_running_workload(
    standin: Any, make_plan: Callable[..., RunPlan], directory: RunDirectory
) -> None:
    handle = job.launch_or_attach(make_plan("print('up', flush=True); import time; time.sleep(600)"), directory).handle
    assert handle.job_name in kubectl("get", "jobsets")
    pods = kubectl("get", "pods", "-l", f"jobset.sigs.k8s.io/jobset-name={handle.job_name}", "-o", "name").split()
    assert len(pods) == 2
    kubectl("wait", "--for=jsonpath={.status.phase}=Running", pods[0], "--timeout=30s")
    kubectl("delete", "jobset", handle.job_name)
    assert job.has_ended(handle)
