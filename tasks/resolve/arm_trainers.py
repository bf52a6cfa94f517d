"""Prepares the trainer of each arm: makes a checkout of the arm's ref and a Python environment with its packages.

An arm is one of the two compared versions. A ref is the name of a branch, a tag or a commit.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from configs.comparison import Arm, Comparison
from configs.errors import ConfigError, Problems, suggest
from tasks.records.plan import ArmOverrides
from tasks.resolve.checkout import make_checkout, prune_checkouts, read_tree
from tasks.resolve.git import GitError, list_commits, run_git
from tasks.resolve.own_clone import HERE, find_own_clone
from tasks.resolve.python_environments import check_packages
from tasks.resolve.refs import WORKING_TREE, ResolvedRef, check_repository, is_address
from tasks.resolve.trainers import trainer_class
from tasks.resolve.trainers.trainer import Checkout, Trainer
from tasks.resolve.working_tree import describe_version, find_source, list_changed_files, read_diff, resolve_version


def prepare_trainers(comparison: Comparison, options: ArmOverrides, cache: Path) -> dict[str, Trainer]:
    """Return arm → its trainer. Creates checkouts and environments in the folder `cache`, and removes old checkouts.

    Raises ConfigError with every problem of the options, or else of the trainers; CheckoutError and SoftwareError.
    """
    problems = Problems()
    arms = problems.attempt(partial(apply_options, comparison, options)) or apply_options(
        comparison, options.replace(software=())
    )
    if not comparison.has_refs:
        problems.lines += [
            f"{option} is for comparisons whose arms are refs, such as main-vs-branch; {comparison.name} has none"
            for option, given in (
                ("--baseline", options.baseline), ("--branch", options.branch),
                ("--repository", options.repository), ("--aa", options.aa),
            )
            if given
        ]  # fmt: skip
        problems.raise_any()
    refs: dict[str, ResolvedRef] = {}
    repositories: dict[str, str | None] = {}
    own = ""
    for arm in arms:
        repositories[arm.name] = named = options.repository or arm.repository or comparison.repository
        if arm.ref is None:
            continue
        if not named:
            own = own or find_own_clone()
        where = problems.attempt(partial(check_repository, named)) if named else own
        ref = where and problems.attempt(partial(resolve_version, where, arm.ref, cache))
        if where and ref:
            repositories[arm.name], refs[arm.name] = None if where == str(HERE) else where, ref
    if comparison.has_refs and len(refs) == len(arms) and not options.one_is_enough:
        problems.lines += _check_control(arms, [refs[arm.name] for arm in arms], aa=options.aa)
    problems.raise_any()
    if refs:
        prune_checkouts(cache)
    make = partial(_prepare_trainer, cache=cache)
    trainers = {
        arm.name: problems.attempt(partial(make, comparison, arm, repositories[arm.name], refs.get(arm.name)))
        for arm in arms
    }
    problems.raise_any()
    made = {name: trainer for name, trainer in trainers.items() if trainer is not None}
    return _add_versions(made, refs, comparison, cache) if refs else made


def _add_versions(
    trainers: Mapping[str, Trainer], refs: Mapping[str, ResolvedRef], comparison: Comparison, cache: Path
) -> dict[str, Trainer]:
    """Return the trainers: that of a ref in a clone with its version, and two of one clone with their distance."""
    found, sources = dict(trainers), {}
    for name, ref in refs.items():
        where = trainers[name].repository or str(HERE)
        if is_address(where):
            continue
        with suppress(GitError):  # the clone has just been removed
            sources[name] = find_source(where, ref.sha, cache)
            found[name] = found[name].replace(version=describe_version(ref, where, sources[name]))
    if len(sources) < len(found) or len({trainer.repository for trainer in found.values()}) > 1:
        return found
    # the repository that is kept for a commit of the working tree also has the clone's commits
    folder = next((source for name, source in sources.items() if refs[name].head), next(iter(sources.values())))
    with suppress(GitError):
        return _add_distances(found, refs, comparison, Path(folder))
    return found


def _add_distances(
    trainers: Mapping[str, Trainer], refs: Mapping[str, ResolvedRef], comparison: Comparison, folder: Path
) -> dict[str, Trainer]:
    """Return both trainers with the commits that the other lacks, and the files that differ. Raises GitError."""
    found = {}
    ends = {name: ref.head or ref.sha for name, ref in refs.items()}
    different = list_changed_files(folder, *(ref.sha for ref in refs.values()))
    for arm, other in zip(comparison.arms, reversed(comparison.arms), strict=True):
        left, right, own = ends[other.name], ends[arm.name], trainers[arm.name]
        template = comparison.command_of(arm)
        words = frozenset(template.argv if template else ())
        read = [path for path in different if own.is_read(path, words)]
        distance = {
            "ahead": int(run_git(["rev-list", "--count", f"{left}..{right}"], folder=folder)),
            "different": different,
            "read": len(read),
        }
        if arm is comparison.arms[-1] and read and not any(ref.head for ref in refs.values()):
            paths = [f":(literal){path}" for path in read]
            distance["diff"] = read_diff(folder, refs[other.name].sha, refs[arm.name].sha, paths)
        version = own.version and own.version.replace(**distance)
        found[arm.name] = own.replace(version=version, commits=list_commits(folder, left, right))
    return found


def apply_options(comparison: Comparison, options: ArmOverrides) -> tuple[Arm, ...]:
    """Return the arms with the request's refs and software. Raises ConfigError with every problem."""
    names = [arm.name for arm in comparison.arms]
    problems: list[str] = []
    software: dict[str, list[str]] = {}
    for word in options.software:
        side, colon, what = word.partition(":")
        if not colon or not what:
            problems.append(f"--with {word!r:.80} is not ARM:PACKAGE (for example {names[-1]}:jax==0.11.0)")
        elif side not in names:
            problems.append(
                f"--with {word!r:.80}: no arm '{side:.40}'{suggest(side, names)}; there are: {', '.join(names)}"
            )
        else:
            software.setdefault(side, []).append(what)
    refs = dict(zip(names, (options.baseline, options.branch), strict=True))
    arms = []
    for arm in comparison.arms:
        wanted = software.get(arm.name, [])
        changes: dict[str, object] = {"ref": refs[arm.name] or arm.ref} if comparison.has_refs else {}
        if any("/" in word and "@" not in word for word in wanted):
            if len(wanted) > 1:
                problems.append(f"--with: {arm.name} has a Python and packages: name one or the other")
            changes |= {"python": wanted[0], "packages": (), "image": None}
        elif wanted:
            problems += [f"--with {arm.name}: {line}" for line in check_packages(wanted)]
            changes |= {"packages": tuple(wanted), "python": None, "image": None}
        try:
            arms.append(arm.replace(**changes))
        except ValidationError as error:
            problems += [
                f"{arm.name}: {item['loc'][0]}: {item['msg']}, got {item['input']!r:.80}" for item in error.errors()
            ]
    if problems:
        raise ConfigError(problems)
    return tuple(arms)


def _check_control(arms: Sequence[Arm], refs: Sequence[ResolvedRef], *, aa: bool) -> list[str]:
    left, right = refs
    unchanged = any(arm.ref == WORKING_TREE for arm in arms)
    if left.sha == right.sha and are_equal(arms) and not aa:
        same = (
            f"'{left.name}' would be compared with itself, {left.sha}" + ", and no file is changed" * unchanged
            if left.name == right.name
            else f"'{left.name}' and '{right.name}' are the same commit, {left.sha}"
        )
        return [
            f"{same}: there is nothing to compare. "
            "Edit a file, name another --branch, or measure the noise between equal runs with --aa"
        ]
    if aa and left.sha != right.sha:
        return [f"--aa: '{left.name}' is {left.sha} and '{right.name}' is {right.sha}: a control needs one commit"]
    if aa and not are_equal(arms):
        return ["--aa: the arms run different software or settings: a control needs the same"]
    return []


def are_equal(arms: Sequence[Arm]) -> bool:
    """Return whether two arms have the same packages, Python, image, command and config values under `set:`."""
    left, right = ((arm.packages, arm.python, arm.image, arm.command, arm.set) for arm in arms)
    return left == right


def _prepare_trainer(
    comparison: Comparison, arm: Arm, repository: str | None, ref: ResolvedRef | None, *, cache: Path
) -> Trainer:
    """Return the trainer of one arm. repository: None for maxview's own checkout."""
    where, checkout = repository or str(HERE), None
    if ref is not None:
        checkout = Checkout(make_checkout(find_source(where, ref.sha, cache), ref.sha, cache), ref, where)
    made = trainer_class(comparison.trainer_of(arm)).find(arm, comparison.command_of(arm), cache, checkout)
    if checkout is None or ref is None:
        return made
    placed = {"ref": ref.name, "commit": ref.sha, "repository": repository, "tree": read_tree(checkout.folder)}
    return made.replace(**placed)
