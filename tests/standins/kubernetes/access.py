"""Access to the stand-in: tokens, and the rules of the documented roles in docs/launching.md."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

LAUNCHING = Path(__file__).parent.parent.parent.parent / "docs" / "launching.md"
ADMIN, RUNNER, SECOND = "the-admins-token", "the-runners-token", "the-runners-second-token"
WORKER = "the-workers-token"  # of an account without the roles for xpk

type Rules = list[dict[str, Any]]


def documented_objects(*, xpk: bool = True) -> list[dict[str, Any]]:
    """The objects of the roles in the documentation, as `kubectl apply` would make them. xpk: also those for xpk."""
    blocks = re.findall(r"(?s)```yaml\n(.*?)```", LAUNCHING.read_text())
    found = [item for block in blocks if "rbac.authorization" in block for item in yaml.safe_load_all(block)]
    assert found, f"{LAUNCHING} has no roles"
    return [item for item in found if xpk or "xpk" not in item["metadata"]["name"]]


def documented_rules(*, xpk: bool = True) -> Rules:
    """Return the combined rules of those roles."""
    return [rule for item in documented_objects(xpk=xpk) for rule in item.get("rules", [])]


class Accounts:
    """Tokens with their rules; None: everything."""

    def __init__(self) -> None:
        self.rules: dict[str, Rules | None] = {ADMIN: None, WORKER: documented_rules(xpk=False)}
        self.rules |= {RUNNER: documented_rules(), SECOND: documented_rules()}

    def find(self, headers: Mapping[str, str]) -> str | None:
        """The token of a request; None if it is missing or unknown.

        kubectl sends no token over plain HTTP: its requests are the administrator's.
        """
        if "Authorization" not in headers and headers.get("User-Agent", "").startswith("kubectl/"):
            return ADMIN
        kind, _, token = headers.get("Authorization", "").partition(" ")
        return token if kind.lower() == "bearer" and token in self.rules else None

    def exceeds(self, headers: Mapping[str, str], rules: Rules) -> list[str]:
        """The rights in the rules of a new role that its creator lacks."""
        token = self.find(headers) or ""
        return [
            f"{verb} {resource}"
            for rule in rules for group in rule["apiGroups"] for resource in rule["resources"] for verb in rule["verbs"]
            if not self.allows(token, verb, group, resource)
        ]  # fmt: skip

    def allows(self, token: str, verb: str, group: str, resource: str) -> bool:
        """Whether a token's rules grant a verb; `resource` holds the subresource too."""
        rules = self.rules[token]
        return rules is None or any(
            group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"] for rule in rules
        )
