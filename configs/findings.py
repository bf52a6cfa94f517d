"""Loads configs/comparability/*.yml: the effect of each kind of finding on the verdict, and the reason.

A finding is a fact about the compared runs that blocks or qualifies the verdict, is only noted, or is ignored.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field
from ruamel.yaml.comments import CommentedMap

from configs.errors import ConfigError
from configs.frozen import Frozen
from configs.load import read_entries
from configs.read import display_path, read_yaml, to_python

Effect = Literal["blocks", "qualifies", "note", "ignore"]
FindingKind = Literal[
    "died", "incomplete-log", "unread-steps", "missing-steps", "lost-lines",
    "restarted", "started-apart",
    "mixed-runs",
    "same-commit", "other-trainer", "different-commits", "dirty-checkout",
    "source-lines", "other-source", "log-format",
    "jax-version", "jaxlib-version", "libtpu-version", "package-version", "declared-software", "xla-flags",
    "environment-variable",
    "device-kind", "device-count", "mesh", "host-process",
    "flops", "tokens", "steps", "numbering", "data", "seed", "start", "config", "inert",
    "nondeterministic", "missing-field", "zero-field", "constant-field", "frozen-array", "frozen-in-one-arm",
    "no-effect", "last-digit",
    "recompiled",
    "log-disagrees", "repeated-steps", "same-log", "survived-exception",
    "measurements-disagree",
]  # fmt: skip
KINDS: tuple[FindingKind, ...] = get_args(FindingKind)

type Effects = Mapping[FindingKind, Effect]


class FindingRule(Frozen):
    """The effect of one kind of finding, and the reason."""

    effect: Effect
    why: Annotated[str, Field(min_length=1)]


def read_rules(data: Any, path: Path) -> dict[FindingKind, FindingRule]:
    """Return the rules in a YAML mapping of the file `path`. Raises ConfigError, with suggestions for unknown kinds."""
    if not isinstance(data, CommentedMap):
        raise ConfigError(
            [f"{display_path(path)}: expected `kind: {{effect: …, why: …}}` lines, got {to_python(data)!r:.60}"]
        )
    return read_entries(data, path, FindingRule, KINDS, "finding")


def load_rules(path: Path) -> dict[FindingKind, FindingRule]:
    """Return the rule of every kind of finding. Raises ConfigError, about missing kinds only if the rest is valid."""
    data = read_yaml(path)
    read_rules(data, path)
    return read_entries(data, path, FindingRule, KINDS, "finding", required=KINDS)
