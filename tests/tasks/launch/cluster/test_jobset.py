"""The backend jobset before a launch: the queue is checked, and the API server judges the JobSet, before it exists."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from configs.comparison import load_target
from tasks.launch import job
from tasks.launch.backend import LaunchError, Restarted
from tasks.launch.job import find_obstacles
from tasks.launch.logs import list_earlier_logs
from tasks.records.plan import RunPlan
from tasks.store.directories import RunDirectory
from tests.wording.sentences import Wording

from .test_cluster import ALONE, HANGS, SAY, THREE, error_of, exit_codes, run, steps_in

type MakePlan = Callable[..., RunPlan]

pytestmark = [
    pytest.mark.flows,
    pytest.mark.parametrize("backend", ["jobset"], indirect=True),
    pytest.mark.usefixtures("ordered_errors"),  # it changes the queues of the stand-in
]
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
QUEUES = f"{KUEUE}/namespaces/default/localqueues"
ENVIRON = {"MAXVIEW_CLUSTER": "c", "MAXVIEW_PROJECT": "p", "MAXVIEW_ZONE": "us-east5-b", "MAXVIEW_IMAGE": "i:1"}


@pytest.fixture
def change(standin: Any) -> Iterator[Callable[..., None]]:
    """change(path, field, value): a field of an object in the cluster has another value during the test."""
    before: list[tuple[str, Any]] = []

    def make(path: str, **spec: Any) -> None:
        before.append((path, standin.request("GET", path).json()))
        standin.request("PATCH", path, json={"spec": spec}).raise_for_status()

    yield make
    for path, item in reversed(before):
        standin.request("PUT", path, json=item).raise_for_status()


def refuse(plan: RunPlan, directory: RunDirectory, message: str, standin: Any) -> None:
    with pytest.raises(LaunchError, match=message):
        job.launch_or_attach(plan, directory)
    assert standin.names("jobsets") == []


def test_an_unknown_queue_is_refused_with_the_known_ones(
    standin: Any, make_plan: MakePlan, directory: RunDirectory
) -> None:
    known = "has no queue tpus; there are: multislice-queue; set `queue` of the target"
    refuse(make_plan(THREE, queue="tpus"), directory, known, standin)


def test_an_unknown_priority_is_refused(standin: Any, make_plan: MakePlan, directory: RunDirectory) -> None:
    lists = "the priority highest does not exist: `kubectl get priorityclasses` lists them"
    refuse(make_plan(THREE, priority="highest"), directory, lists, standin)


def test_a_queue_without_the_nodes_is_refused(standin: Any, make_plan: MakePlan, directory: RunDirectory) -> None:
    wanted = "gke-tpu-accelerator=tpu-v5p-slice, .*gke-tpu-topology=2x4x4: it has the flavors 2xv6e-32"
    refuse(make_plan(THREE, topology="v5p:2x4x4"), directory, wanted, standin)
    refuse(make_plan(THREE, topology=None, gpus=8), directory, "has no quota for nvidia.com/gpu", standin)


def test_a_job_above_the_quota_is_refused(standin: Any, make_plan: MakePlan, directory: RunDirectory) -> None:
    quota = "cluster-queue has a quota of 64 google.com/tpu, and a job needs 96"
    refuse(make_plan(THREE, num_slices=3), directory, quota, standin)


@pytest.mark.parametrize("limit", [None, "32", "16"])
def test_a_queue_may_borrow_from_its_cohort(
    standin: Any, make_plan: MakePlan, directory: RunDirectory, change: Callable[..., None], limit: str | None
) -> None:
    quota = {"name": "google.com/tpu", "nominalQuota": "64"} | ({} if limit is None else {"borrowingLimit": limit})
    group = {"coveredResources": ["google.com/tpu"], "flavors": [{"name": "2xv6e-32", "resources": [quota]}]}
    change(f"{KUEUE}/clusterqueues/cluster-queue", cohortName="all", resourceGroups=[group])
    plan = make_plan(THREE, num_slices=3)
    if limit == "16":
        refuse(plan, directory, "a quota of 80 google.com/tpu, and a job needs 96", standin)
    else:
        assert exit_codes(run(plan, directory)) == [0]


def test_a_stopped_queue_is_refused(
    standin: Any, make_plan: MakePlan, directory: RunDirectory, change: Callable[..., None]
) -> None:
    change(f"{KUEUE}/clusterqueues/cluster-queue", stopPolicy="HoldAndDrain")
    refuse(
        make_plan(THREE), directory, r"cluster-queue of the queue multislice-queue is stopped \(HoldAndDrain\)", standin
    )


def test_a_queue_without_its_cluster_queue_is_refused(
    standin: Any, make_plan: MakePlan, directory: RunDirectory, change: Callable[..., None]
) -> None:
    change(f"{QUEUES}/multislice-queue", clusterQueue="gone")
    refuse(make_plan(THREE), directory, "belongs to the ClusterQueue gone, which does not exist", standin)


def test_doctor_reports_the_queue(standin: Any, change: Callable[..., None], backend: str, wording: Wording) -> None:
    target = load_target("v6e-32")
    settings = target.launch | {"context": "loopback"}
    target = target.replace(launch=settings)
    assert list(find_obstacles(target, ENVIRON)) == []
    (found,) = find_obstacles(target, ENVIRON | {"MAXVIEW_QUEUE": "tpus"})
    assert "no queue tpus" in found
    wording("errors", found)


def test_without_a_queue_no_queue_is_asked_for(standin: Any, make_plan: MakePlan, directory: RunDirectory) -> None:
    plan = make_plan(THREE, queue=None)
    launched = job.launch_or_attach(plan, directory)
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/{launched.handle.job_name}"
    assert "labels" not in standin.request("GET", path).json()["metadata"]
    job.stop(launched.handle)


# ---------------------------------------------------------------- admission


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (403, 'admission webhook "policy.example.com" denied the request: images must have a digest'),
        (403, 'jobsets.jobset.x-k8s.io "x" is forbidden: exceeded quota: team, requested: count/jobsets=1'),
        (422, 'JobSet.jobset.x-k8s.io "x" is invalid: spec: Invalid value'),
    ],
)
def test_a_refusal_of_the_api_server_is_reported_at_once(
    standin: Any, make_plan: MakePlan, directory: RunDirectory, code: int, message: str
) -> None:
    standin.order({"kind": "refused", "code": code, "message": message})
    seen = len(standin.requests())
    refuse(make_plan(THREE), directory, f"refuses the job: {code} {message.split(':')[0]}", standin)
    posted = [line for line in standin.requests()[seen:] if line.startswith("POST /apis/jobset")]
    assert len(posted) == 1
    assert "dryRun=All" in posted[0]  # nothing was created


def test_a_webhook_without_dry_runs_prevents_none(standin: Any, make_plan: MakePlan, directory: RunDirectory) -> None:
    message = 'admission webhook "x.example.com" does not support dry run'
    standin.order({"kind": "refused", "code": 400, "message": message})
    assert exit_codes(run(make_plan(THREE), directory)) == [0]


def test_an_api_server_that_fails_during_the_creation(
    standin: Any, make_plan: MakePlan, directory: RunDirectory
) -> None:
    standin.order({"kind": "error", "path": "jobsets?", "code": 503, "times": 3})
    assert exit_codes(run(make_plan(THREE), directory)) == [0]
    assert len(standin.names("jobsets")) == 1


# ---------------------------------------------------------------- restarts by exit code


def test_a_run_is_restarted_after_the_chosen_exit_codes(
    standin: Any, make_plan: MakePlan, directory: RunDirectory
) -> None:
    place = "first = not os.path.exists(sys.argv[1] + '/began'); open(sys.argv[1] + '/began', 'w').close()\n"
    code = ALONE + SAY + place + "say(0 if first else 1); sys.exit(42 if first else 0)"
    events = run(make_plan(code, restart_on_exit_codes=[42]), directory)
    assert [event.cause.type for event in events if isinstance(event, Restarted)] == ["ExitCode 42"]
    assert exit_codes(events) == [42, 0]
    assert [steps_in(log) for log in (*list_earlier_logs(directory.log), directory.log)] == [[0], [1]]


def test_after_the_last_attempt_the_trainers_error_remains(
    standin: Any, make_plan: MakePlan, directory: RunDirectory
) -> None:
    code = ALONE + THREE + "raise ValueError('no luck')"
    events = run(make_plan(code, restart_on_exit_codes=[1], attempts=2), directory)
    assert len([event for event in events if isinstance(event, Restarted)]) == 1
    assert (error_of(directory).type, error_of(directory).message) == ("ValueError", "no luck")


def test_other_exit_codes_end_the_run(standin: Any, make_plan: MakePlan, directory: RunDirectory) -> None:
    events = run(make_plan(THREE + "sys.exit(3)", restart_on_exit_codes=[42]), directory)
    assert not any(isinstance(event, Restarted) for event in events)


def test_two_slices_of_jobs_have_their_pods(standin: Any, make_plan: MakePlan, directory: RunDirectory) -> None:
    launched = job.launch_or_attach(make_plan(HANGS, num_slices=2), directory)
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/{launched.handle.job_name}"
    (made,) = standin.request("GET", path).json()["spec"]["replicatedJobs"]
    assert (made["replicas"], made["template"]["spec"]["completions"]) == (2, 8)
    job.stop(launched.handle)
