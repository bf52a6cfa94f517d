"""Plans a night, stores its plan so that a killed night can resume, and records its results.

A night runs, by default, the comparisons of configs/nightly.yml for every case. A cell is one case of one comparison in
a night.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ValidationError

from configs.comparison import MAX_REPEATS, Arm, Comparison, load_comparison, load_target
from configs.errors import ConfigError, Problems
from configs.load import layer_from_overrides
from configs.names import find, list_names
from configs.nightly import BLESSED, PREVIOUS, Nightly, NightlyComparison, load_nightly
from configs.read import CONFIG_ROOT, read_duration
from configs.schema import Frozen
from configs.verdict_rules import VerdictRules, load_verdict_rules
from tasks.records import Verdict
from tasks.resolve.arm_config import find_unfit_cases
from tasks.resolve.arm_trainers import ArmOverrides, are_equal
from tasks.resolve.options import NightOptions
from tasks.resolve.own_clone import find_own_clone
from tasks.resolve.plans import hash_identity
from tasks.resolve.refs import WORKING_TREE, ResolvedRef, check_repository, pin_ref, resolve_ref
from tasks.store import Store, StoreError
from tasks.store.files import AlreadyThereError

FOLDER = "nightly"  # in the store
ALL = "all"  # in place of a case's name: every case
COUNTED = ("regressed", "changed", "failed")  # outcomes of a cell that make its night bad
MAX_TWINS = 3  # names in a line


type Outcome = Verdict | Literal["failed", "died"]


def name_cell(comparison: str, case: str, owner: str) -> str:
    """Return the name of a cell: `linen-vs-nnx 01_base (anna)`."""
    return f"{comparison} {case}" + (f" ({owner})" if owner else "")


class NightCell(Frozen):
    """One case of one comparison in a night, with its options and its owner."""

    comparison: str
    case: str
    owner: str = ""
    quarantine: str = ""  # the reason why its outcome is ignored; empty: it is not ignored
    repeats: int | None = None  # number of runs per arm; None: as in the comparison's file
    arms: ArmOverrides = ArmOverrides()  # refs, pinned to commits
    blessed: bool = False  # the runs in configs/baselines replace the first arm

    @property
    def title(self) -> str:
        """The comparison, the case and its owner, if any: `linen-vs-nnx 01_base (anna)`."""
        return name_cell(self.comparison, self.case, self.owner)


class NightPlan(Frozen):
    """A night: its cells in order. `id` is its day, with a number for later nights of a day: "2026-11-24.2"."""

    id: str
    created: str  # ISO 8601
    target: str
    slices: int  # limit of parallel runs
    overrides: tuple[str, ...] = ()  # key=value, for all runs
    request: str  # hash of the options: only a call with equal options resumes the night
    commits: dict[str, str] = {}  # comparison → its branch's commit: the next night's `previous` baseline
    cells: tuple[NightCell, ...] = ()
    comment: str | None = None  # owner/name#12: the pull request or issue to comment on; None: none
    rules: dict[str, VerdictRules] = {}  # comparison → its rules, read when the night was planned
    decide_budget_s: float | None = None  # seconds for the repeats of an undecided cell; None: do not repeat
    bisect_budget_s: float | None = None  # seconds of run time to bisect each new regression; None: do not bisect
    invariants: bool = False  # evaluate the twins of the compared trainers


class CellResult(Frozen):
    """The outcome of a cell. `failed`: the comparison could not be made, and `headline` gives the reason."""

    cell: NightCell
    outcome: Verdict | Literal["failed"]
    headline: str
    died: bool = False  # an arm died
    page: str = ""  # address of the comparison's page
    seconds: float = 0.0  # duration

    @property
    def word(self) -> Outcome:
        """The outcome as pages and messages show it."""
        return "died" if self.died else self.outcome

    @property
    def counts(self) -> bool:
        """Whether this result makes the night bad."""
        return self.outcome in COUNTED and not self.cell.quarantine


class NightTwins(Frozen):
    """The answer of invariants for the trainer of one comparison of a night."""

    comparison: str
    outcome: Literal["same", "another", "unknown", "failed"]  # failed: not published, and `headline` gives the reason
    headline: str
    broken: tuple[str, ...] = ()  # names of the twins that compute another function, with their cases
    page: str = ""  # address
    next: str = ""  # the next useful command

    @property
    def counts(self) -> bool:
        """Whether this answer makes the night bad."""
        return self.outcome in ("another", "failed")

    @property
    def line(self) -> str:
        """The answer in one line: the headline, and the names of the first twins that differ."""
        more = f" and {len(self.broken) - MAX_TWINS} more" if len(self.broken) > MAX_TWINS else ""
        return self.headline + (f": {', '.join(self.broken[:MAX_TWINS])}{more}" if self.broken else "")


class NightChange(Frozen):
    """A change since the previous night: a cell's outcome, a bisection's commit, or twins that differ."""

    kind: Literal["outcome", "bisected", "twins", "as stored"]  # "as stored": a line of an older version
    comparison: str = ""
    case: str = ""
    owner: str = ""
    outcome: Outcome | None = None  # of the cell; None for a bisection
    before: Outcome | None = None  # None: the cell is new
    text: str  # the headline of the comparison or of the bisection

    @property
    def cell(self) -> str:
        """The comparison, the case and its owner, if any: `linen-vs-nnx 01_base (anna)`."""
        return name_cell(self.comparison, self.case, self.owner)

    @property
    def line(self) -> str:
        """The change in one line, for messages."""
        if self.kind == "as stored":
            return self.text
        if self.kind == "bisected":
            return f"{self.cell}: bisected, which commit: {self.text}"
        if self.kind == "twins":
            return f"{self.comparison}: twins: {self.text}"
        return f"{self.cell}: {self.outcome}, {f'was {self.before}' if self.before else 'is new'}: {self.text}"


def read_older_line(value: Any) -> Any:
    """Return a change's data; the lines that older versions stored become changes of the kind `as stored`."""
    return {"kind": "as stored", "text": value} if isinstance(value, str) else value


# a change, also from a record in which it is a line
type StoredChange = Annotated[NightChange, BeforeValidator(read_older_line)]


class NightRecord(Frozen):
    """A finished night: every cell's result, and the changes since the previous night on the same target."""

    plan: NightPlan
    results: tuple[CellResult, ...]
    ended: str  # ISO 8601
    before: str | None = None  # the id of the previous night; None: there was none
    changes: tuple[StoredChange, ...] = ()  # of outcomes, of twins, then the commits that bisections found
    twins: tuple[NightTwins, ...] = ()

    @property
    def bad(self) -> tuple[CellResult, ...]:
        """The results that make the night bad."""
        return tuple(result for result in self.results if result.counts)

    @property
    def is_bad(self) -> bool:
        """Whether a result, or a twin that computes another function, makes the night bad."""
        return bool(self.bad) or any(one.counts for one in self.twins)


def plan_night(request: NightOptions, store: Store, *, day: date, root: Path = CONFIG_ROOT) -> NightPlan:
    """Return the plan of the night to run: an unfinished night of the same day and request, else a new night.

    A new plan is written to the store. With `fresh`, the night is always new. Raises ConfigError with every problem,
    StoreError.
    """
    request_hash = hash_identity(request.model_dump(exclude={"fresh", "out"}))
    known = {plan.id: plan for plan in _read(store, "plan.json", NightPlan)}
    done = {record.plan.id: record for record in read_records(store)}
    if not request.fresh:
        for plan in known.values():
            if plan.id not in done and plan.id.startswith(day.isoformat()) and plan.request == request_hash:
                return plan
    last = max(done.values(), key=lambda record: (record.ended, record.plan.id), default=None)
    fresh = make_plan(request, request_hash, last, day=day, root=root)
    for number in range(1, 1000):
        plan = fresh.model_copy(update={"id": f"{day.isoformat()}.{number}" if number > 1 else day.isoformat()})
        if plan.id in known:
            continue
        try:
            store.files.write(f"{FOLDER}/{plan.id}/plan.json", plan.model_dump_json(indent=1).encode(), create=True)
        except AlreadyThereError:  # a concurrent night took the number
            continue
        return plan
    raise StoreError(f"{store.files.root}: a thousand nights on {day.isoformat()}: remove some of {FOLDER}/")


def check_night(request: NightOptions, *, root: Path = CONFIG_ROOT) -> None:
    """Check the options and every name in them, without reading a repository. Raises ConfigError with every problem."""
    problems = Problems()
    _check_names(request, problems, root)
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


def finish_night(
    plan: NightPlan,
    results: Sequence[CellResult],
    store: Store,
    found: Sequence[NightChange] = (),
    twins: Sequence[NightTwins] = (),
) -> NightRecord:
    """Write the night's record to the store, which marks the night as finished; return the record.

    found: results of `name_culprit`.
    """
    before = find_night_before(plan, store)
    record = NightRecord(
        plan=plan,
        results=tuple(results),
        ended=datetime.now(UTC).isoformat(timespec="seconds"),
        before=before.plan.id if before else None,
        changes=(
            *find_changes(before.results if before else (), results),
            *find_twin_changes(before.twins if before else (), twins),
            *found,
        ),
        twins=tuple(twins),
    )
    store.files.write(f"{FOLDER}/{plan.id}/record.json", record.model_dump_json(indent=1).encode())
    return record


def find_night_before(plan: NightPlan, store: Store) -> NightRecord | None:
    """Return the night that finished last on the same target, except `plan` itself; None if there is none."""
    return max(
        (record for record in read_records(store) if record.plan.id != plan.id and record.plan.target == plan.target),
        key=lambda record: (record.ended, record.plan.id),
        default=None,
    )


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


def find_changes(before: Sequence[CellResult], now: Sequence[CellResult]) -> Iterator[NightChange]:
    """Yield a change per cell whose outcome changed since the previous night and is or was bad (in COUNTED).

    A cell without an earlier result has a change if its outcome is bad. Leaves out quarantined cells.
    """
    known: Mapping[tuple[str, str], CellResult] = {(r.cell.comparison, r.cell.case): r for r in before}
    for result in now:
        cell = result.cell
        earlier = known.get((cell.comparison, cell.case))
        if cell.quarantine or (earlier is not None and result.word == earlier.word):
            continue
        if result.outcome in COUNTED or (earlier is not None and earlier.outcome in COUNTED):
            yield NightChange(
                kind="outcome",
                comparison=cell.comparison,
                case=cell.case,
                owner=cell.owner,
                outcome=result.word,
                before=earlier.word if earlier is not None else None,
                text=result.headline,
            )


def find_twin_changes(before: Sequence[NightTwins], now: Sequence[NightTwins]) -> Iterator[NightChange]:
    """Yield a change for each trainer whose twins that differ are not those of the previous night."""
    known = {one.comparison: one for one in before}
    for one in now:
        earlier = known.get(one.comparison)
        state = (earlier.broken, earlier.outcome == "failed") if earlier else ((), False)
        if (one.broken, one.outcome == "failed") != state:
            yield NightChange(kind="twins", comparison=one.comparison, text=one.line)


def read_records(store: Store) -> Iterator[NightRecord]:
    """Yield the record of every finished night in the store. Raises StoreError for a damaged record."""
    return _read(store, "record.json", NightRecord)


def _read[T: (NightPlan, NightRecord)](store: Store, file: str, kind: type[T]) -> Iterator[T]:
    names = [entry.name for entry in store.files.entries(pattern=f"{FOLDER}/*/{file}")]
    for name, data in store.files.read_many(names).items():
        try:
            yield kind.model_validate_json(data)
        except ValidationError as error:
            raise StoreError(f"{store.files.root}/{name}: is damaged or has another version: remove it") from error
