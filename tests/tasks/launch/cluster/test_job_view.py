"""API objects of a job, hand-built from the API's reference, and the state and cause read from them."""

from typing import Any

import pytest

from tasks.launch.cluster.job_view import CAUSE_KINDS, view_job
from tasks.records.run_facts import seconds_between
from tasks.scrape.death.causes import classify

T = "2026-11-21T05:00:{:02d}Z"


def jobset(**conditions: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "j", "creationTimestamp": T.format(0)},
        "status": {
            "conditions": [
                {"type": kind, "status": "True", "reason": "r", "message": message}
                for kind, message in conditions.items()
            ]
        },
    }


def pod(host: int = 0, slice_: int = 0, state: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    labels = {
        "jobset.sigs.k8s.io/job-index": str(slice_),
        "batch.kubernetes.io/job-completion-index": str(host),
    }
    return {
        "metadata": {"name": f"p-{slice_}-{host}", "labels": labels},
        "spec": {"nodeName": f"n-{host}", "containers": [{"name": "jax-tpu"}, {"name": "sidecar"}]},
        "status": {
            "containerStatuses": [
                {"name": "sidecar", "state": {"running": {}}},
                {"name": "jax-tpu", "state": state or {}},
            ]
        }
        | status,
    }


def ended(code: int, at: int = 30, **more: str) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "startedAt": T.format(10), "finishedAt": T.format(at), **more}}


RUNNING = {"running": {"startedAt": T.format(10)}}


def test_a_job_that_waits() -> None:
    quota = {"type": "QuotaReserved", "status": "False", "message": "no quota"}
    view = view_job(jobset(), [], [{"status": {"conditions": [quota]}}])
    assert (view.over, view.started, view.cause, view.message) == (False, None, None, "no quota")


def test_a_job_without_its_first_pod_has_not_succeeded() -> None:
    assert view_job(jobset(), [pod(0, state=ended(0)), pod(1, state=ended(0))], []).exit_code == 0
    view = view_job(jobset(), [pod(1, state=ended(0))], [])  # Kueue deletes the pods one by one
    assert (view.over, view.exit_code) == (False, None)


def test_a_job_that_runs() -> None:
    view = view_job(jobset(), [pod(1, state=RUNNING), pod(0, state=RUNNING)], [])
    assert not view.over
    assert view.first is not None
    assert (view.first.name, view.first.container, view.first.node) == ("p-0-0", "jax-tpu", "n-0")
    assert seconds_between(view.created, view.started) == 10.0


def test_a_successful_job() -> None:
    view = view_job(jobset(Completed="done"), [pod(0, state=ended(0)), pod(1, state=ended(0, 40))], [])
    assert (view.over, view.terminal, view.exit_code, view.cause) == (True, "Completed", 0, None)


def test_the_exit_code_comes_from_the_pod_that_failed_first() -> None:
    pods = [pod(0, state=ended(143, 31)), pod(1, state=ended(37, 30)), pod(0, 1, state=ended(137, 35))]
    view = view_job(jobset(Failed="jobset failed"), pods, [])
    assert view.exit_code == 37
    assert view.failed is not None
    assert view.failed.name == "p-0-1"
    assert view.cause is None


@pytest.mark.parametrize(
    ("status", "state", "cause"),
    [
        ({"reason": "Preempted", "message": "m"}, ended(143), "Preempted"),
        ({"reason": "Evicted", "message": "The node was low on resource: memory."}, ended(137), "Evicted"),
        ({"reason": "NodeShutdown"}, ended(143), "NodeShutdown"),
        (
            {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]},
            ended(137),
            "DeletionByTaintManager",
        ),
        ({}, ended(137, reason="OOMKilled"), "OOMKilled"),
        ({}, {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off"}}, "ImagePullBackOff"),
        ({}, {"waiting": {"reason": "ContainerCreating"}}, None),
        ({}, ended(128, reason="StartError", message="exec: no such file"), "StartError"),
        ({}, ended(137, reason="Error"), None),
        ({}, ended(143, reason="Error"), None),
        (
            {"conditions": [{"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}]},
            ended(1),
            None,
        ),
    ],
)
def test_causes(status: dict[str, Any], state: dict[str, Any], cause: str | None) -> None:
    view = view_job(jobset(), [pod(state=state, **status)], [])
    assert (view.cause.type if view.cause else None) == cause
    assert cause is None or cause in CAUSE_KINDS


def test_a_preempted_pod_is_the_cause_before_pods_that_failed_after_it() -> None:
    pods = [pod(0, state=ended(1, 20)), pod(1, state=ended(143, 30), reason="Preempted")]
    view = view_job(jobset(Failed="x"), pods, [])
    assert view.cause is not None
    assert (view.cause.type, view.exit_code) == ("Preempted", 143)


def test_kueue_evicts() -> None:
    condition = {
        "type": "Evicted",
        "status": "True",
        "reason": "Preempted",
        "message": "Preempted to accommodate a workload",
    }
    view = view_job(jobset(), [], [{"status": {"conditions": [condition]}}])
    assert view.evicted is not None
    assert view.evicted.type == "Evicted (Preempted)"
    assert classify(f"{view.evicted.type}: {view.evicted.message}") == "preempted"
    again = view_job(jobset(), [], [{"status": {"conditions": [condition | {"status": "False"}]}}])
    assert again.evicted is None


def test_a_deleted_job() -> None:
    assert view_job(None, [], []).over
    left = view_job(None, [pod(state=RUNNING)], [])  # its pods have their grace period
    assert left.first is not None
    assert not left.exists


def test_containers_that_gke_adds_are_not_the_trainers() -> None:
    """GKE puts the sidecar of gcsfuse before the trainer: its end is not the trainer's."""
    made = pod(state=ended(3))
    made["spec"]["containers"].insert(0, {"name": "gke-gcsfuse-sidecar"})
    made["status"]["containerStatuses"].append({"name": "gke-gcsfuse-sidecar", "state": ended(0)})
    view = view_job(jobset(), [made], [])
    assert (view.pods[0].container, view.exit_code) == ("jax-tpu", 3)
