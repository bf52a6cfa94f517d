"""Describes which code a comparison compares: the versions of both arms and their distance, in a few lines."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tasks.publish.content.verdict_words import sides_of
from tasks.records.compared_case import ComparisonRecord
from tasks.records.plan import CodeVersion, RunPlan
from tasks.records.text import counted, visible

MAX_SUBJECT_LENGTH = 68  # characters of a commit's subject
MAX_FILES = 4  # files that are listed by name


class NamedArm(NamedTuple):
    """An arm in one line."""

    side: str
    name: str  # its ref, as the user named it
    commit: str  # nine digits; empty if unknown, or of a working tree
    subject: str  # of the commit; empty if unknown


def describe_arms(record: ComparisonRecord) -> list[NamedArm]:
    """Return both arms of a comparison."""
    named = []
    for side, arm in sides_of(record):
        version = record.code.get(arm.name)
        commit = "" if version is not None and version.changed else (arm.commit or "")[:9]
        subjects = {commit.sha[:9]: commit.subject for commit in record.commits.get(arm.name, ())}
        subject = version.subject if version is not None else subjects.get(commit, "")
        subject = "" if version is not None and version.changed else subject  # of its HEAD: a note names it
        name = visible(version.name if version is not None else arm.ref)
        named.append(NamedArm(side, name, "" if name == commit else visible(commit), visible(subject)))
    return named


def describe_notes(record: ComparisonRecord) -> list[str]:
    """Return what the arms' lines leave out: their distance, and where a name does not tell what was compared."""
    versions = [record.code[arm.name] for _, arm in sides_of(record) if arm.name in record.code]
    is_told = any(finding.kind == "same-commit" for finding in record.findings)
    if not versions and not is_told and record.baseline.commit and record.baseline.commit == record.candidate.commit:
        return ["both arms run one commit: no line of code differs"]
    return [*([describe_distance(*versions)] if len(versions) == 2 else []), *_note(versions)]


def describe_code(record: ComparisonRecord) -> list[str]:
    """Return the lines about the code of a comparison's record; empty if its arms are no refs of clones."""
    return list(_describe([record.baseline.name, record.candidate.name], record.code))


def describe_planned_code(plans: Sequence[RunPlan]) -> list[str]:
    """Return the same lines before the first run."""
    arms = list(dict.fromkeys(plan.arm for plan in plans))
    return list(_describe(arms, {plan.arm: plan.version for plan in plans if plan.version is not None}))


def _describe(arms: Sequence[str], code: Mapping[str, CodeVersion]) -> Iterator[str]:
    versions = [code[arm] for arm in arms if arm in code]
    if not versions:
        return
    distance = f": {describe_distance(*versions)}" if len(versions) == 2 else ""
    yield " → ".join(visible(version.short) for version in versions) + distance
    commits = [version for version in versions if not version.changed]
    width = max((len(version.name) for version in commits), default=0)
    for version in commits:
        yield f"{visible(version.name):{width}}  {visible(_cut(version.subject))}"
    yield from _note(versions)


def _note(versions: Sequence[CodeVersion]) -> Iterator[str]:
    edited = any(version.changed for version in versions)
    for version in versions:
        if version.left_out and not edited:
            files = counted(version.left_out, "changed file")
            yield f"{visible(version.name)} is the commit, without {files} of the working tree"
        if version.found_as:
            yield f"{visible(version.name)} is {visible(version.found_as)} at {version.sha[:9]}"
        if version.changed:
            listed = ", ".join(version.changed[:MAX_FILES])
            more = len(version.changed) - MAX_FILES
            listed += f" and {more} more" if more > 0 else ""
            yield visible(f"not committed, on {version.head[:9]} {_cut(version.subject)}: {listed}")


def _cut(subject: str) -> str:
    return subject if len(subject) <= MAX_SUBJECT_LENGTH else f"{subject[: MAX_SUBJECT_LENGTH - 1]}…"


def describe_distance(left: CodeVersion, right: CodeVersion) -> str:
    """Return the commits and files between two versions: "3 commits, 5 files (4 read by the trainer)"."""
    if left.sha == right.sha:
        return "one commit"
    if right.ahead is None or right.different is None or left.ahead is None:
        return "their distance is not known"
    commits = counted(right.ahead, "commit")
    if left.ahead:
        commits += f", and {left.ahead:,} only on {left.name}"
    if not right.different:
        return f"{commits}, no file differs"
    files = counted(len(right.different), "file")
    read = {0: " (the trainer reads none of them)", len(right.different): ""}
    distance = files if right.changed and not right.ahead and not left.ahead else f"{commits}, {files}"
    return distance + read.get(right.read or 0, f" (the trainer reads {right.read} of them)")
