"""Lists the points of a bisection, which are commits or package versions, and plans the runs of a point.

The ends are the first point (good) and the last one (bad). A span is the line of points from good to bad.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from packaging.version import InvalidVersion, Version

from configs.comparison import Comparison, load_comparison
from configs.errors import ConfigError
from configs.frozen import Frozen
from configs.names import default_cache
from questions.bisect.commits import digest_sources, find_dirt, find_inside, find_line
from tasks.records.bisection import BisectedPoint
from tasks.records.plan import ArmOverrides, Commit, RunPlan
from tasks.resolve.git import GitError
from tasks.resolve.options import BisectOptions
from tasks.resolve.own_clone import find_own_clone
from tasks.resolve.plans import Request, check_request, resolve
from tasks.resolve.refs import ResolvedRef, check_repository, is_address, pin_ref, resolve_ref
from tasks.resolve.trainers import trainer_class

MAX_VERSIONS = 40  # limit of versions in a range; a list may have more
_RANGE = re.compile(r"([A-Za-z0-9._\[\]-]+)==([^,.\s][^,\s]*?)\.\.([^,.\s][^,\s]*)")
_LIST = re.compile(r"([A-Za-z0-9._\[\]-]+)==([^,\s]+(?:,[^,\s]+)+)")


class Span(Frozen):
    """The points of a search, from good to bad, and the resolved refs of both ends."""

    repository: str  # path of the clone
    named: bool  # True if the user named a repository instead of the comparison's own
    good: ResolvedRef
    bad: ResolvedRef
    points: tuple[BisectedPoint, ...]
    parents: dict[str, tuple[str, ...]] = {}  # commit's SHA → its parents' SHAs; empty for versions
    software: tuple[str, ...] = ()  # requirements that every point is run with, e.g. "jax==0.12.0"

    def is_merge(self, point: int) -> bool:
        """Whether a point's commit has several parents."""
        return len(self.parents.get(self.points[point].commit.sha, ())) > 1


def choose_span(request: BisectOptions) -> Span:
    """Return the request's span: of package versions if it has `--packages` and good equals bad, else of commits."""
    alone = request.more.packages and request.good == request.bad
    return span_of_packages(request) if alone else find_span(request)


def find_span(request: BisectOptions) -> Span:
    """Return a request's commits as a span. Raises ConfigError with the remedy."""
    spec = _check(request)
    repository = _find_repository(request, spec)
    if is_address(repository):
        raise ConfigError(
            [f"{repository}: a bisection needs the history: git clone it, and name the folder with --repository"]
        )
    good, bad = resolve_ref(repository, request.good), resolve_ref(repository, request.bad)
    dirt = find_dirt(repository) if request.bad in ("HEAD", "@") else ""
    if dirt:
        raise ConfigError(
            [f"{repository}: {dirt} has uncommitted changes, and a bisection only sees commits: "
             f"commit or stash them, or name the commit: --bad {bad.sha[:9]}"]
        )  # fmt: skip
    return span_between(spec, repository, good, bad, named=bool(request.repository))


def _find_repository(request: BisectOptions, spec: Comparison) -> str:
    named = request.repository or spec.repository
    return check_repository(named) if named else find_own_clone()


def span_between(spec: Comparison, repository: str, good: ResolvedRef, bad: ResolvedRef, *, named: bool) -> Span:
    """Return the span from one commit of a repository to another."""
    commits = find_line(repository, good, bad)
    shas = [one.commit.sha for one in commits]
    words = spec.command.argv if spec.command else ()
    try:
        sources = digest_sources(repository, shas, trainer_class(spec.trainer), words)
    except GitError as error:
        raise ConfigError([f"{repository}: its commits cannot be read: {error}"]) from error
    points = tuple(BisectedPoint(commit=one.commit, source=sources[one.commit.sha]) for one in commits)
    parents = {one.commit.sha: one.parents for one in commits}
    return Span(repository=repository, named=named, good=good, bad=bad, points=points, parents=parents)


def spans_inside(request: BisectOptions, span: Span, point: int) -> list[Span]:
    """Return one span for each branch that a merge (the point) brought in, from the branch's fork point."""
    spec = load_comparison(request.comparison)
    found = []
    for base, last in find_inside(span.repository, span.parents[span.points[point].commit.sha]):
        ends = ResolvedRef(name=base[:9], sha=base), ResolvedRef(name=last[:9], sha=last)
        inside = span_between(spec, span.repository, *ends, named=span.named)
        found.append(inside.replace(software=span.software))
    return found


def span_of_packages(request: BisectOptions) -> Span:
    """Return a span of package versions, all with the code of the bad end. Raises ConfigError."""
    spec = _check(request)
    repository = _find_repository(request, spec)
    held = resolve_ref(repository, request.bad)
    commit = Commit(sha=held.sha, time="", author="", subject="")
    versions = read_versions(request.more.packages)
    points = tuple(BisectedPoint(commit=commit, version=version) for version in versions)
    return Span(repository=repository, named=bool(request.repository), good=held, bad=held, points=points)


def corner_span(request: BisectOptions, commits: Span) -> Span:
    """Return a span of four points: old and new code with the first version, then both with the last version."""
    first, *_, last = read_versions(request.more.packages)
    ends = (commits.points[0], commits.points[-1])
    points = tuple(end.replace(version=version) for version in (first, last) for end in ends)
    return commits.replace(points=points)


def span_after_corners(request: BisectOptions, commits: Span, *, packages: bool) -> Span:
    """Return the span of versions if `packages` is true, else the span of commits, all with the last version."""
    if packages:
        return span_of_packages(request)
    return commits.replace(software=(read_versions(request.more.packages)[-1],))


def read_versions(text: str) -> tuple[str, ...]:
    """Return a requirement per version in `--packages`, which is a list, or a range of the version's last number.

    Raises ConfigError for other texts. The versions of other ranges could only be listed by a package index.
    """
    listed, ranged = _LIST.fullmatch(text.strip()), _RANGE.fullmatch(text.strip())
    hint = "write jax==0.9.1..0.9.3, or every version: jax==0.8.2,0.9.0,0.9.1"
    try:
        if listed:
            versions = [str(Version(word)) for word in listed[2].split(",")]
            if sorted(versions, key=Version) != versions and sorted(versions, key=Version) != versions[::-1]:
                raise ConfigError([f"--packages {text!r:.80}: the versions are not in order"])
            return tuple(f"{listed[1]}=={version}" for version in versions)
        if not ranged:
            raise ConfigError([f"--packages {text!r:.80}: is no range of versions: {hint}"])
        first, last = Version(ranged[2]), Version(ranged[3])
    except InvalidVersion as error:
        raise ConfigError([f"--packages {text!r:.80}: {error}: {hint}"]) from error
    left, right = first.release, last.release
    if left[:-1] != right[:-1] or len(left) != len(right):
        raise ConfigError([f"--packages {text!r:.80}: the ends differ in more than their last number: {hint}"])
    low, high = left[-1], right[-1]
    if low == high or abs(high - low) >= MAX_VERSIONS:
        raise ConfigError([f"--packages {text!r:.80}: between 2 and {MAX_VERSIONS} versions, please"])
    numbers = range(low, high + 1) if low < high else range(low, high - 1, -1)
    return tuple(f"{ranged[1]}=={'.'.join(map(str, (*left[:-1], number)))}" for number in numbers)


def plan_point(
    request: BisectOptions, span: Span, point: int, case: str, out: Path, *, repeats: int, kind: type[Request] = Request
) -> list[RunPlan]:
    """Return the plans of `repeats` runs of a point. Point 0 runs as the baseline, every other point as the candidate.

    out: the store's folder. Raises ValueError if the trainer of the commit cannot be prepared.
    """
    spec = load_comparison(request.comparison)
    arm = spec.arms[0 if point == 0 else 1].name
    here = span.points[point]
    refs = [ResolvedRef(name=_name(span, number), sha=span.points[number].commit.sha) for number in (0, point)]
    requirements = [
        f"{side.name}:{word}"
        for side, version in zip(spec.arms, (span.points[0].version, here.version), strict=True)
        for word in (*span.software, version)
        if word
    ]
    alone = point == 0  # both arms would have one commit: plan only the baseline
    options = ArmOverrides(
        baseline=pin_ref(refs[0]), branch=pin_ref(refs[1]), repository=span.repository if span.named else None,
        software=tuple(requirements), aa=alone,
    )  # fmt: skip
    more = {"cases": (case,), "repeats": repeats, "arms": options}
    plans = resolve(kind(**dict(_request_comparison(request)) | more), out, cache=default_cache())
    return [plan.replace(aa=False) for plan in plans if plan.arm == arm]


def list_cases(request: BisectOptions) -> list[str]:
    """Return the cases to bisect, without duplicates. Raises ConfigError with all problems of names and config keys."""
    return check_request(_request_comparison(request))[2]


def _request_comparison(request: BisectOptions) -> Request:
    return Request(
        comparison=request.comparison, cases=request.cases, target=request.target or None,
        model=request.more.model or None, overrides=request.more.overrides,
    )  # fmt: skip


def _name(span: Span, point: int) -> str:
    """Return the ref of a point: for an end, the user's name (without the SHA in `NAME:SHA`); else the short SHA."""
    ends = {0: span.good.name, len(span.points) - 1: span.bad.name}
    name = ends.get(point, span.points[point].commit.sha[:9])
    return name.partition(":")[0]


def _check(request: BisectOptions) -> Comparison:
    spec = load_comparison(request.comparison)
    if not spec.has_refs:
        raise ConfigError([f"{spec.name}: its arms are no refs: only comparisons such as main-vs-branch have commits"])
    differ: Sequence[str] = [
        name for name in ("set", "command", "packages", "python", "image")
        if getattr(spec.arms[0], name) != getattr(spec.arms[1], name)
    ]  # fmt: skip
    if differ:
        raise ConfigError([f"{spec.name}: its arms differ in {', '.join(differ)} too: a bisection changes one thing"])
    return spec
