"""Finds the commits between two arms' refs that changed the source lines of an explanation, with git blame."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from configs.names import default_cache
from tasks.programs.source_lines import shorten_path
from tasks.records.explanation import CodeLine, Explanation, LiveBuffer, OperationDifference, TimeDifference
from tasks.records.plan import RunPlan
from tasks.resolve.git import GitError, run_git
from tasks.resolve.working_tree import TREE_AUTHOR, find_source

MAX_LINES = 60  # limit of lines of an arm to look up; each takes up to four git commands
_HERE = Path(__file__).parents[2]


class Refs(NamedTuple):
    """The commits of both arms, and a clone that has both."""

    clone: Path
    baseline: str
    candidate: str


def find_refs(baseline: RunPlan, candidate: RunPlan) -> Refs | None:
    """Return two arms' commits; None if equal, unknown, of different repositories or not in the clone."""
    left, right = baseline.commit, candidate.commit
    if not left or not right or left == right or baseline.repository != candidate.repository:
        return None
    cache = default_cache()
    clone = Path(candidate.repository).expanduser() if candidate.repository else _HERE
    for commit in (left, right):  # at most one of them is kept elsewhere, with access to the clone's commits
        clone = Path(find_source(str(clone), commit, cache))
    try:
        for commit in (left, right):
            run_git(["cat-file", "-e", f"{commit}^{{commit}}"], folder=clone)
    except (GitError, OSError):
        return None
    return Refs(clone, left, right)


def add_commits(explanation: Explanation, refs: Refs, roots: tuple[str, str]) -> Explanation:
    """Return the explanation with `lines`: its source lines that changed between the refs, each with the commit.

    roots: the arms' folders.
    """
    commits = [
        name_commits(lines, refs, of_candidate=bool(side), root=roots[side])
        for side, lines in enumerate(_list_lines(explanation))
    ]
    touched = [
        line.replace(commit=commit)
        for found in reversed(commits)  # the candidate's lines first
        for line, commit in found.items()
    ]
    return explanation.replace(lines=tuple(touched))


def _list_lines(explanation: Explanation) -> tuple[list[CodeLine], list[CodeLine]]:
    """Return the source lines in an explanation: the baseline's and the candidate's, in the order of its rows."""
    sides: tuple[list[CodeLine], list[CodeLine]] = [], []
    for root in explanation.tensors.roots if explanation.tensors else ():
        if root.file:
            here = CodeLine(file=root.file, line=root.line, function=root.function, path=root.path)
            place, _, function = root.candidate_place.partition(" ")
            file, _, number = place.rpartition(":")
            there = CodeLine(file=file, line=int(number), function=function, path=file) if number.isdigit() else None
            sides[0].append(here)
            sides[1].append(there or here.replace(path=root.file))
    program, spent, memory = explanation.program, explanation.time, explanation.memory
    rows: list[OperationDifference | TimeDifference | LiveBuffer] = [
        *(program.operations if program else ()),
        *(spent.differences if spent else ()),
        *(memory.buffers if memory else ()),
    ]
    sides[0].extend(row.baseline_line for row in rows if row.baseline_line)
    sides[1].extend(row.candidate_line for row in rows if row.candidate_line)
    return sides


def name_commits(lines: Iterable[CodeLine], refs: Refs, *, of_candidate: bool, root: str) -> dict[CodeLine, str]:
    """Return line → commit, e.g. `1a2b3c4d5 its subject`, for the lines that changed between the refs.

    A candidate's line gets the commit that wrote the line, a baseline's line the commit that removed it.
    """
    found = {}
    for line in list(dict.fromkeys(lines))[:MAX_LINES]:
        file = shorten_path(line.path, root)
        if file.startswith("/") or not line.line:
            continue  # in an installed package, outside of the repository
        sha = _blame(file, line.line, refs) if of_candidate else _find_end(file, line.line, refs)
        if sha:
            found[line] = _say_commit(sha, refs)
    return found


def _blame(file: str, number: int, refs: Refs) -> str:
    span = f"{refs.baseline}..{refs.candidate}"
    words = ["blame", "--porcelain", f"-L{number},{number}", span, "--", file]
    try:
        printed = run_git(words, folder=refs.clone).splitlines()
    except GitError:
        return ""
    return "" if not printed or "boundary" in printed else printed[0].split()[0]


def _find_end(file: str, number: int, refs: Refs) -> str:
    """Return the commit that removed a line of the baseline; empty if none did.

    It is the child of the last commit with the line.
    """
    span = f"{refs.baseline}..{refs.candidate}"
    words = ["blame", "--porcelain", "--reverse", f"-L{number},{number}", span, "--", file]
    try:
        last = run_git(words, folder=refs.clone).split(" ", 1)[0]
        tip = run_git(["rev-parse", "--verify", "--end-of-options", f"{refs.candidate}^{{commit}}"], folder=refs.clone)
        if not last or last == tip:
            return ""
        path = ["rev-list", "--ancestry-path", "--reverse", "--end-of-options", f"{last}..{refs.candidate}", "--"]
        return run_git(path, folder=refs.clone).split("\n", 1)[0]
    except GitError:
        return ""


def _say_commit(sha: str, refs: Refs) -> str:
    words = ["log", "-1", "--format=%ae%n%s%n%h %s", "--abbrev=9", "--end-of-options", sha, "--"]
    author, subject, named = run_git(words, folder=refs.clone).split("\n", 2)
    return subject if author == TREE_AUTHOR else named  # the user's git knows no commit of a working tree
