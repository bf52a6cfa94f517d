"""Describes which code a comparison compares: the versions of both arms and their distance, in a few lines."""

from collections.abc import Iterator, Mapping, Sequence

from tasks.records import CodeVersion, ComparisonRecord, RunPlan
from tasks.records.text import counted, visible

MAX_SUBJECT_LENGTH = 68  # characters of a commit's subject
MAX_FILES = 4  # files that are listed by name


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
    width = max(len(version.name.partition(" + ")[0]) for version in versions)
    for version in versions:
        name = version.name.partition(" + ")[0]
        yield f"{visible(name):{width}}  {visible(_cut(version.subject))}"
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
            yield visible(f"not committed: {listed}" + (f" and {more} more" if more > 0 else ""))


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
        commits += f", and {left.ahead:,} only on {left.name.partition(' + ')[0]}"
    if not right.different:
        return f"{commits}, no file differs"
    files = counted(len(right.different), "file")
    read = {0: " (the trainer reads none of them)", len(right.different): ""}
    return f"{commits}, {files}" + read.get(right.read or 0, f" (the trainer reads {right.read} of them)")
