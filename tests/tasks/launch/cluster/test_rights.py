"""The documented roles grant each right that a run needs, and no other; `maxview doctor` names the missing ones."""

from typing import Any

import pytest
from access import RUNNER, documented_objects  # of the stand-in

from configs.comparison import Target, load_target
from tasks.launch.cluster.rights import NEEDED, Right
from tasks.launch.job import find_obstacles
from tasks.launch.jobset.check import PRIORITY_RIGHTS, QUEUE_RIGHTS
from tasks.launch.xpk.check import XPK_NEEDED
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

OWN = (*NEEDED, *QUEUE_RIGHTS, *PRIORITY_RIGHTS)
# of Prefect's worker beside ours: it runs flows as Jobs and observes their pods
WORKERS = {
    *(("pods", verb) for verb in ("get", "watch")),
    *(("jobs", verb) for verb in ("get", "list", "watch", "create", "delete")),
}


def documented(*, of_xpk: bool) -> set[tuple[str, str, str, bool]]:
    """(verb, group, resource, in the whole cluster) of each rule of the roles."""
    return {
        (verb, group, resource, item["kind"] == "ClusterRole")
        for item in documented_objects()
        if item["kind"].endswith("Role") and ("xpk" in item["metadata"]["name"]) == of_xpk
        for rule in item["rules"] for group in rule["apiGroups"] for resource in rule["resources"]
        for verb in rule["verbs"]
    }  # fmt: skip


def granted(rights: tuple[Right, ...]) -> set[tuple[str, str, str, bool]]:
    return {
        (right.verb, right.group, right.resource + f"/{right.subresource}" * bool(right.subresource), wide)
        for right in rights
        for wide in (right.cluster_wide,)
    }


def test_the_documented_roles_grant_the_needed_rights() -> None:
    workers = {(verb, "batch" if resource == "jobs" else "", resource, False) for resource, verb in WORKERS}
    assert documented(of_xpk=False) == granted(OWN) | workers
    pods = ("list", "", "pods", False)  # xpk grants it to its pods
    assert documented(of_xpk=True) == granted(XPK_NEEDED) | {pods}


@pytest.fixture
def targets(xpk_target: Target) -> dict[str, Target]:
    """A target of each backend, by the backend's name."""
    return {"jobset": load_target("v6e-32"), "xpk": xpk_target}


def obstacles(target: Target) -> list[str]:
    """Return the obstacles to runs on a target in the stand-in."""
    names = ("CLUSTER", "PROJECT", "ZONE", "IMAGE")
    environ = dict(zip((f"MAXVIEW_{name}" for name in names), ("c", "p", "us-east5-b", "i:1"), strict=True))
    return list(find_obstacles(target.replace(launch=target.launch | {"context": "loopback"}), environ))


@pytest.mark.parametrize("backend", ["jobset", "xpk"])
def test_the_documented_roles_are_complete(standin: Any, targets: dict[str, Target], backend: str) -> None:
    assert obstacles(targets[backend]) == []


@pytest.mark.parametrize(("backend", "rights", "optional"), [("jobset", OWN, 6), ("xpk", (*NEEDED, *XPK_NEEDED), 2)])
def test_each_missing_right_is_named(
    standin: Any,
    targets: dict[str, Target],
    backend: str,
    rights: tuple[Right, ...],
    optional: int,
    wording: Wording,
) -> None:
    standin.order({"kind": "rules", "token": RUNNER, "rules": []})
    found = obstacles(targets[backend])
    assert len(found) == len(rights)
    (logs,) = [line for line in found if " get pods/log " in line]
    assert "docs/launching.md" in logs
    wording("errors", logs)
    assert sum("; without it " in line for line in found) == optional  # runs continue without them
