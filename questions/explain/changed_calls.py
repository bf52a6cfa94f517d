"""Finds the changed line that calls the unchanged code in which two arms begin to differ.

An arm is one of the two compared versions of a trainer. A helper that both arms call, such as a norm, has no fault; the
line that calls it in one arm only may have.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from questions.explain.arm_values import ArmValues
from questions.explain.describe_root import PlacedRoot
from questions.explain.tensor_rows import Chain

KINDS = frozenset({"extra", "operation", "result"})


def name_changed_calls(roots: Sequence[PlacedRoot], arms: Sequence[ArmValues]) -> list[PlacedRoot]:
    """Return the roots; one in unchanged code also has the changed line that calls it, if there is one."""
    files = [{frame[3]: frame[0] for row in arm.rows for frame in row.chain} for arm in arms]
    found = []
    for one in roots:
        others = files[0] if one.arm == arms[1].observation.arm else files[1]
        called = find_changed_call(one.chain, others) if one.root.kind in KINDS else ""
        if called:
            sentence = f"{one.root.sentence}; called at {called}, which differs"
            root = one.root.replace(called_at=called, sentence=sentence)
            found.append(replace(one, root=root, group=(*one.group, called)))
        else:
            found.append(one)
    return found


def find_changed_call(chain: Chain, others: Mapping[str, str]) -> str:
    """Return `file:line function` of the innermost call whose line the other arm's file lacks; else "".

    Also "" if the operation's own line is a changed one. others: short file → file of the other arm.
    """
    for n, (file, line, function, short) in enumerate(chain):
        text, theirs = _read_lines(file)[line - 1 : line], _read_lines(others.get(short, ""))
        if text and text[0] and theirs and text[0] not in theirs:
            return f"{short}:{line} {function}" if n else ""
    return ""


@cache
def _read_lines(file: str) -> tuple[str, ...]:
    try:
        return tuple(line.strip() for line in Path(file).read_text(encoding="utf-8").splitlines()) if file else ()
    except (OSError, UnicodeDecodeError):
        return ()
