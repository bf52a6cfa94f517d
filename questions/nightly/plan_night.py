"""Plans a night, and stores its plan so that a killed night can resume.

A night runs, by default, the comparisons of configs/nightly.yml for every case. A cell is one case of one comparison in
a night.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path

from configs.comparison import MAX_REPEATS, Arm, Comparison, load_comparison, load_target
from configs.errors import ConfigError, Problems
from configs.load import layer_from_overrides
from configs.names import BLESSED, find, list_names
from configs.nightly import PREVIOUS, Nightly, NightlyComparison, load_nightly
from configs.read import CONFIG_ROOT, read_duration
from configs.verdict_rules import VerdictRules, load_verdict_rules
from tasks.diff.judge.compare_nights import find_night_before
from tasks.records.night import CellResult, NightCell, NightChange, NightPlan, NightRecord
from tasks.records.plan import ArmOverrides
from tasks.resolve.arm_config import find_unfit_cases
from tasks.resolve.arm_trainers import are_equal
from tasks.resolve.options import NightOptions
from tasks.resolve.own_clone import find_own_clone
from tasks.resolve.plans import hash_identity
from tasks.resolve.refs import WORKING_TREE, ResolvedRef, check_repository, pin_ref, resolve_ref
from tasks.store.atomic import StoreError
from tasks.store.files import AlreadyThereError
from tasks.store.nights import FOLDER, read_night_plans, read_nights
from tasks.store.store import Store

ALL = "all"  # in place of a case's name: every case


def plan_night(request: NightOptions, store: Store, *, day: date, root: Path = CONFIG_ROOT) -> NightPlan:
    """Return the plan of the night to run: an unfinished night of the same day and request, else a new night.

    A new plan is written to the store. With `fresh`, the night is always new. Raises ConfigError with every problem,
    StoreError.
    """
    request_hash = hash_identity(request.model_dump(exclude={"fresh", "out"}))
    known = {plan.id: plan for plan in read_night_plans(store)}
    done = {record.plan.id: record for record in read_nights(store)}
    if not request.fresh:
        for plan in known.values():
            if plan.id not in done and plan.id.startswith(day.isoformat()) and plan.request == request_hash:
                return plan
    last = max(done.values(), key=lambda record: (record.ended, record.plan.id), default=None)
    fresh = make_plan(request, request_hash, last, day=day, root=root)
    for number in range(1, 1000):
        plan = fresh.replace(id=f"{day.isoformat()}.{number}" if number > 1 else day.isoformat())
        if plan.id in known:
            continue
        try:
            store.files.write(f"{FOLDER}/{plan.id}/plan.json", plan.model_dump_json(indent=1).encode(), create=True)
        except AlreadyThereError:  # a concurrent night took the number
            continue
        return plan
    raise StoreError(f"{store.files.root}: a thousand nights on {day.isoformat()}: remove some of {FOLDER}/")


def check_night(request: NightOptions) -> None:
    """Check the options and every name in them, without reading a repository. Raises ConfigError with every problem."""
    problems = Problems()
    _check_names(request, problems, CONFIG_ROOT)
    problems.raise_any()


def _check_names(request: NightOptions, problems: Problems, root: Path) -> Nightly | None:
    nightly = problems.attempt(partial(load_nightly, Path(request.config) if request.config else None, root=root))
    if request.target:
        problems.attempt(partial(load_target, request.target, root=root))
    for case in request.cases:
        if case != ALL:
            problems.attempt(partial(find, "cases", case, root=root))
    for name in request.comparisons:
        problems.attempt(partial(load_comparison, name, root=root))
    problems.attempt(partial(layer_from_overrides, request.overrides))
    if request.repeats is not None and not 1 <= request.repeats <= MAX_REPEATS:
        problems.lines.append(f"--repeats must be 1 to {MAX_REPEATS}, got {request.repeats}")
    return nightly


def make_plan(
    request: NightOptions, request_hash: str, last: NightRecord | None, *, day: date, root: Path = CONFIG_ROOT
) -> NightPlan:
    """Return the plan of a new night, whose `id` is its day without a number. Raises ConfigError with every problem.

    last: the night that finished last, whose commits are the `previous` baselines.
    """
    problems = Problems()
    nightly = _check_names(request, problems, root)
    if nightly is None:
        raise ConfigError(problems.lines)
    listed = {item.name: item for item in nightly.comparisons}
    names = request.comparisons or tuple(listed)
    target = request.target or nightly.target
    cases: Sequence[str] = request.cases
    every_case = not cases or ALL in cases
    if every_case:
        every = list_names("cases", root=root)
        unfit = problems.attempt(lambda: find_unfit_cases(every, load_target(target, root=root), root=root)) or {}
        cases = [case for case in every if case not in unfit]
    cells: list[NightCell] = []
    rules: dict[str, VerdictRules] = {}
    commits: dict[str, str] = {}
    for name in dict.fromkeys(names):
        spec = problems.attempt(partial(load_comparison, name, root=root))
        if spec is None:
            continue
        item = listed.get(name) or NightlyComparison(name=name)
        arms = problems.attempt(partial(pin_arms, spec, item, last))
        read = problems.attempt(partial(load_verdict_rules, name, target, root=root))
        if arms is None or read is None:
            continue
        rules[name] = read
        if arms.branch:
            commits[name] = arms.branch.rpartition(":")[2]
        # the cases listed in a comparison set only keys that its custom command has placeholders for
        wanted_cases = spec.cases if every_case and spec.has_command else cases
        for case in wanted_cases:
            broken = nightly.quarantined(name, case, day)
            cells.append(
                NightCell(
                    comparison=name,
                    case=case,
                    owner=nightly.owner(case),
                    quarantine=f"{broken.why} (until {broken.until.isoformat()})" if broken else "",
                    repeats=request.repeats or item.repeats,
                    arms=arms,
                    blessed=item.baseline == BLESSED,
                )
            )
    problems.raise_any()
    return NightPlan(
        id=day.isoformat(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        target=target,
        slices=nightly.slices_of(target),
        overrides=request.overrides,
        request=request_hash,
        commits=commits,
        cells=tuple(dict.fromkeys(cells)),
        comment=nightly.comment,
        decide_budget_s=read_duration(nightly.until_decided) if nightly.until_decided else None,
        bisect_budget_s=read_duration(nightly.bisect_budget) if nightly.bisect == "auto" else None,
        invariants=nightly.invariants == "auto",
        rules=rules,
    )


def pin_arms(spec: Comparison, item: NightlyComparison, last: NightRecord | None) -> ArmOverrides:
    """Return the refs of the comparison's arms, pinned to commits for the whole night. Raises ConfigError.

    The baseline `previous` is the branch's commit in the last night, or in this night if the last night did not compare
    it. With the baseline `blessed`, both refs are the branch. Arms that differ in nothing, not even in the commit, are
    a control. Returns no refs if the arms have none.
    """
    if not spec.has_refs:
        return ArmOverrides()
    left, right = spec.arms
    branch = _look_up(spec, item, right, item.branch or _commit_for(right))
    name = item.baseline or _commit_for(left)
    if name == BLESSED:
        return ArmOverrides(baseline=pin_ref(branch), branch=pin_ref(branch), repository=item.repository)
    before = last.plan.commits.get(spec.name) if last is not None else None
    if name == PREVIOUS:
        baseline = ResolvedRef(name=PREVIOUS if before else branch.name, sha=before or branch.sha)
    else:
        baseline = _look_up(spec, item, left, name)
    return ArmOverrides(
        baseline=pin_ref(baseline),
        branch=pin_ref(branch),
        repository=item.repository,
        aa=baseline.sha == branch.sha and are_equal(spec.arms),
    )


def _commit_for(arm: Arm) -> str:
    """Return the arm's ref, and HEAD in place of a working tree: a night compares commits only."""
    return "HEAD" if arm.ref == WORKING_TREE else str(arm.ref)


def _look_up(spec: Comparison, item: NightlyComparison, arm: Arm, name: str) -> ResolvedRef:
    where = item.repository or arm.repository or spec.repository
    return resolve_ref(check_repository(where) if where else find_own_clone(), name)


def find_new_regressions(plan: NightPlan, results: Sequence[CellResult], store: Store) -> list[CellResult]:
    """Return the results that newly regressed or died since the previous night and can be bisected.

    A result can be bisected if it compares two different commits and is not quarantined.
    """
    before = find_night_before(plan, store)
    known = {(one.cell.comparison, one.cell.case): one.word for one in before.results} if before else {}
    found = []
    for result in results:
        cell = result.cell
        refs = {(ref or "").rpartition(":")[2] for ref in (cell.arms.baseline, cell.arms.branch)}
        was = known.get((cell.comparison, cell.case))
        is_new = result.word in ("regressed", "died") and was not in ("regressed", "died")
        if is_new and not cell.quarantine and len(refs) == 2 and "" not in refs:
            found.append(result)
    return found


def name_culprit(cell: NightCell, headline: str) -> NightChange:
    """Return the change of a cell whose cause a bisection looked for. headline: of the bisection."""
    return NightChange(kind="bisected", comparison=cell.comparison, case=cell.case, owner=cell.owner, text=headline)
