"""The documented roles grant each right that a run needs, and no other; `maxview doctor` names the missing ones."""

from typing import Any

from access import RUNNER, documented_objects  # of the stand-in

from configs.comparison import load_target
from tasks.launch.cluster.rights import NEEDED as SHARED
from tasks.launch.job import find_obstacles
from tasks.launch.xpk.check import XPK_NEEDED

NEEDED = (*SHARED, *XPK_NEEDED)


def documented() -> set[tuple[str, str, str, bool]]:
    """(verb, group, resource, in the whole cluster) of each rule of the roles."""
    return {
        (verb, group, resource, item["kind"] == "ClusterRole")
        for item in documented_objects() if item["kind"].endswith("Role")
        for rule in item["rules"] for group in rule["apiGroups"] for resource in rule["resources"]
        for verb in rule["verbs"]
    }  # fmt: skip


def test_the_documented_roles_grant_the_needed_rights() -> None:
    needed = {
        (
            right.verb,
            right.group,
            right.resource + f"/{right.subresource}" * bool(right.subresource),
            right.cluster_wide,
        )
        for right in NEEDED
    }
    assert documented() == needed


def obstacles(standin: Any) -> list[str]:
    """Return the obstacles to runs on a target in the stand-in."""
    names = ("CLUSTER", "PROJECT", "ZONE", "IMAGE")
    environ = dict(zip((f"MAXVIEW_{name}" for name in names), ("c", "p", "us-east5-b", "i:1"), strict=True))
    target = load_target("v6e-32")
    return list(find_obstacles(target.model_copy(update={"launch": target.launch | {"context": "loopback"}}), environ))


def test_the_documented_roles_are_complete(standin: Any) -> None:
    assert obstacles(standin) == []


def test_each_missing_right_is_named(standin: Any) -> None:
    standin.order({"kind": "rules", "token": RUNNER, "rules": []})
    found = obstacles(standin)
    assert len(found) == len(NEEDED)
    assert "this account may not get pods/log in the namespace default: docs/launching.md has the role" in found
    assert sum("; without it " in line for line in found) == 2  # runs continue without access to queue and nodes
