"""The options of the flows, each defined once: the command line and Prefect's run form both read these models.

A field named `more` contains the rarely used options, which the run form shows as a group. An empty string means the
default, because the form asks for a type if a field may be None. The form's server checks limits and choices before
it creates a flow run; `resolve` checks them for every caller.
"""

from typing import Annotated, Literal, get_args

from cyclopts import Parameter

from configs.comparison import ENOUGH_REPEATS, MAX_REPEATS
from configs.errors import suggest
from configs.frozen import Frozen
from configs.read import read_duration
from tasks.records.convergence import MIN_SEEDS
from tasks.resolve.form_fields import doc, dropdown, number_fields, or_empty
from tasks.resolve.refs import MAX_NAME_LENGTH

DEFAULT_OUT = "maxview-out"
# Parameters of the command line: without a `--no-…` form and without the default in the help.
QUIET = Parameter(negative="", show_default=False)
SEVERAL = Parameter(negative="", show_default=False, consume_multiple=True)  # one option, several values
AN_ARGUMENT = Parameter(parse=False)  # on the command line a positional argument, not an option
GROUP = Parameter(name="*")  # the fields of a group are options of their own


def _read_seconds(budget: str) -> float | None:
    try:
        return read_duration(budget) if budget else None
    except ValueError as error:
        raise ValueError(f"--budget: {error}") from error


INTERLEAVE_S = 60.0  # default limit of the programs' turns
OFF = "off"
Experiment = Literal["function", "time"]
EXPERIMENTS: tuple[Experiment, ...] = get_args(Experiment)
COUNT = {"type": "integer", "minimum": 1, "maximum": MAX_REPEATS}

Comparison = Annotated[
    str, AN_ARGUMENT, doc("What to compare: a file in configs/comparisons", **dropdown("comparisons"))
]
Cases = Annotated[
    tuple[str, ...],
    Parameter(name="--case"),
    QUIET,
    doc(
        "A case such as 03_dropout, or several; all: every case. By default those of the comparison.",
        items=dropdown("cases", "all"),
    ),
]
Target = Annotated[
    str, QUIET, doc("Where to run: cpu, cpu-8, …; the comparison's own target by default.", **dropdown("targets", ""))
]
Model = Annotated[str, QUIET, doc("The model file; the target's own by default.", **dropdown("models", ""))]
Overrides = Annotated[
    tuple[str, ...],
    Parameter(name="--set"),
    QUIET,
    doc("key=value for both arms, such as remat_policy=none; any number of them."),
]
Branch = Annotated[
    str,
    QUIET,
    doc(
        "For main-vs-branch: the branch, tag or commit to judge, such as HEAD; by default the working tree (.) with "
        "its uncommitted changes.",
        maxLength=MAX_NAME_LENGTH,
    ),
]
Baseline = Annotated[
    str,
    QUIET,
    doc(
        "For main-vs-branch: a branch, tag or commit; main by default. For every comparison: a baseline file, a "
        "folder of them (folder/), or `blessed` for configs/baselines: then only the second arm is trained.",
        maxLength=MAX_NAME_LENGTH,
    ),
]
Repository = Annotated[
    str,
    QUIET,
    doc("A clone's folder or an address that has both; by default the clone of maxview that you are in, else its own."),
]
Software = Annotated[
    tuple[str, ...],
    Parameter(name="--with"),
    QUIET,
    doc(
        "ARM:PACKAGE, any number of them: the packages of one arm, for example branch:jax==0.11.0; branch:project for "
        "those of its pyproject.toml; branch:/path/to/python for an existing environment."
    ),
]
Repeats = Annotated[int | None, doc("Runs per arm, interleaved; as configured by default.", **or_empty(COUNT))]
Fresh = Annotated[bool, QUIET, doc("Run again what has finished before.")]
Out = Annotated[str, doc("Folder or gs://bucket/prefix for runs, records and pages.")]


class More(Frozen, json_schema_extra=number_fields):
    """The rarely used options of every flow that compares two arms."""

    model: Model = ""
    overrides: Overrides = ()


class PreflightMore(More):
    """The rarely used options of a preflight."""

    software: Software = ()
    fresh: Fresh = False


class CompareMore(PreflightMore):
    """The rarely used options of a comparison."""

    repeats: Repeats = None
    aa: Annotated[bool, QUIET, doc("Both arms are meant to be the same commit: a control that measures the noise.")] = (
        False
    )
    until_decided: Annotated[
        bool, QUIET, doc("Run more repeats, interleaved, until every judged row is decided or the budget ends.")
    ] = False
    budget: Annotated[str, QUIET, doc("The time limit of until-decided: 90s, 10m, 2h.")] = ""
    interleave: Annotated[
        str,
        QUIET,
        doc(
            "How long both programs may run in turns on this machine, which decides the step time of the program: "
            "90s, 5m; 60s by default, off: not at all."
        ),
    ] = ""
    max_repeats: Annotated[
        int | None, doc(f"The runs per arm of until-decided, at most; {ENOUGH_REPEATS} by default.", **or_empty(COUNT))
    ] = None
    step: Annotated[
        tuple[str, ...],
        QUIET,
        doc("The jitted functions of the training step, the first of which begins it; by default they are found."),
    ] = ()
    seeds: Annotated[
        int | None,
        doc(
            "Judge convergence instead: train each arm with so many seeds, 3 or more, and compare the final losses; "
            "with target-loss also the steps to it.",
            **or_empty(COUNT),
        ),
    ] = None
    target_loss: Annotated[float | None, QUIET, doc("Loss to reach, with seeds.")] = None
    take_over: Annotated[
        bool, QUIET, doc("Continue runs in a bucket that are claimed by another machine, which is gone for good.")
    ] = False
    gate: Annotated[
        tuple[str, ...],
        QUIET,
        doc(
            "What counts for the exit status and the state of the flow run: function, time, memory; time=5%: at most "
            "5 % more. By default every judged row."
        ),
    ] = ()
    comment: Annotated[
        str,
        QUIET,
        doc(
            "A pull request on GitHub, owner/name#12: its one comment of this comparison is written or updated, with "
            "the token in MAXVIEW_GITHUB_TOKEN."
        ),
    ] = ""


class ArmsOptions(Frozen):
    """The options that choose two arms and their cases."""

    branch: Branch = ""
    baseline: Baseline = ""
    repository: Repository = ""
    cases: Cases = ()
    target: Target = ""
    comparison: Comparison = "linen-vs-nnx"


class CompareOptions(ArmsOptions):
    """The options of the flow `compare`."""

    only: Annotated[
        tuple[str, ...],
        QUIET,
        doc(
            "Train nothing, and compare only the programs: function (the same in float64?), time (in turns), or both: "
            "function,time."
        ),
    ] = ()
    more: Annotated[CompareMore, GROUP, doc("Options that are rarely needed")] = CompareMore()
    out: Out = DEFAULT_OUT

    def read_interleave(self) -> float | None:
        """Return the time limit of the programs' turns in seconds; None if they are off. Raises ValueError."""
        text = self.more.interleave
        if text == OFF:
            return None
        try:
            return read_duration(text) if text else INTERLEAVE_S
        except ValueError as error:
            raise ValueError(f"--interleave: {error}, or off") from error

    def read_seeds(self) -> int | None:
        """Return the seeds of each arm; None: convergence is not judged. Raises ValueError."""
        seeds = self.more.seeds
        if seeds is None:
            if self.more.target_loss is not None:
                raise ValueError("--target-loss belongs to --seeds: give both")
            return None
        if not MIN_SEEDS <= seeds <= MAX_REPEATS:
            raise ValueError(f"--seeds must be {MIN_SEEDS} to {MAX_REPEATS}, got {seeds}")
        others = {"--only": self.only, "--repeats": self.more.repeats, "--until-decided": self.more.until_decided}
        if given := [name for name in others if others[name]]:
            raise ValueError(f"--seeds trains once with each seed, which {given[0]} contradicts: give one of them")
        return seeds

    def read_only(self) -> frozenset[Experiment]:
        """Return the experiments of `only`; empty: train. Raises ValueError for an unknown one."""
        names = [name for given in self.only for name in given.split(",")]
        unknown = [name for name in names if name not in EXPERIMENTS]
        if unknown:
            raise ValueError(
                f"--only: '{unknown[0]:.40}' is no experiment{suggest(unknown[0], EXPERIMENTS)}: "
                f"{', '.join(EXPERIMENTS)}, or both with a comma"
            )
        return frozenset(one for one in EXPERIMENTS if one in names)

    def read_budget(self) -> float | None:
        """Return the time limit of --until-decided in seconds; None if there is none.

        Raises ValueError for invalid limits of time or runs, and for limits without --until-decided.
        """
        problems, seconds, most = [], None, self.more.max_repeats
        if not self.more.until_decided:
            given = {"--budget": self.more.budget or None, "--max-repeats": most}
            problems += [f"{name} limits --until-decided: give both" for name in given if given[name] is not None]
        if most is not None and not 1 <= most <= MAX_REPEATS:
            problems.append(f"--max-repeats must be 1 to {MAX_REPEATS}, got {most}")
        try:
            seconds = _read_seconds(self.more.budget)
        except ValueError as error:
            problems.append(str(error))
        if problems:
            raise ValueError("\n".join(problems))
        return seconds


class PreflightOptions(ArmsOptions):
    """The options of the flow `preflight`."""

    target: Annotated[str, doc("A target that names a topology, such as v5e-32 or v5p-64.", **dropdown("targets"))] = (
        "v6e-32"
    )
    more: Annotated[PreflightMore, GROUP, doc("Options that are rarely needed")] = PreflightMore()
    out: Out = DEFAULT_OUT


class BisectMore(More):
    """The rarely used options of a bisection."""

    packages: Annotated[
        str,
        QUIET,
        doc(
            "Bisect versions with the code of one commit, which is good and bad: jax==0.12.0..0.12.3, or each: "
            "jax==0.11.1,0.12.0."
        ),
    ] = ""
    budget: Annotated[str, QUIET, doc("The time that all runs together may take: 90s, 10m, 2h.")] = ""
    max_runs: Annotated[
        int | None, doc("The number of runs, at most.", **or_empty({"type": "integer", "minimum": 2}))
    ] = None
    free: Annotated[
        bool, QUIET, doc("Stop at the compile ledger: the compiler's output for every commit. Nothing is trained.")
    ] = False


class BisectOptions(Frozen):
    """The options of the flow `bisect`."""

    good: Annotated[str, doc("A branch, tag or commit that was good; an ancestor of bad.")]
    bad: Annotated[str, doc("A branch, tag or commit that is bad.")] = "HEAD"
    repository: Repository = ""
    cases: Cases = ()
    target: Target = ""
    comparison: Comparison = "main-vs-branch"
    metric: Annotated[
        str,
        QUIET,
        doc(
            'A row\'s title such as "Step time, steady", or loss, died, memory, program, checkpoint; time: the '
            "programs in turns, without training. The worst row by default."
        ),
    ] = ""
    more: Annotated[BisectMore, GROUP, doc("Options that are rarely needed")] = BisectMore()
    out: Out = DEFAULT_OUT

    def read_budget(self) -> float | None:
        """Return the time limit of all runs together in seconds; None if there is none. Raises ValueError."""
        return _read_seconds(self.more.budget)


class NightOptions(Frozen):
    """The options of the flow `nightly`; an empty option means the value in its file."""

    comparisons: Annotated[
        tuple[str, ...],
        Parameter(name="--comparison"),
        QUIET,
        doc("A comparison, or several; those of configs/nightly.yml by default.", items=dropdown("comparisons")),
    ] = ()
    cases: Annotated[
        tuple[str, ...],
        Parameter(name="--case"),
        QUIET,
        doc("A case such as 03_dropout, or several; every case by default.", items=dropdown("cases", "all")),
    ] = ()
    target: Annotated[
        str, QUIET, doc("Where to run; as configs/nightly.yml says by default.", **dropdown("targets", ""))
    ] = ""
    repeats: Repeats = None
    overrides: Overrides = ()
    config: Annotated[str, QUIET, doc("Another file than configs/nightly.yml.")] = ""
    fresh: Annotated[bool, QUIET, doc("Do not resume an unfinished night of today.")] = False
    out: Out = DEFAULT_OUT


class IngestOptions(Frozen):
    """The options of the flow `ingest`."""

    logs: Annotated[
        tuple[str, ...],
        AN_ARGUMENT,
        doc("Two logs, or one saved MaxView page; paths or gs://.", items={"type": "string"}, maxItems=2),
    ] = ()
    baseline: Annotated[
        tuple[str, ...],
        SEVERAL,
        doc(
            "Several runs of each side: the baseline's logs, or pages, which stand for their baseline. Folders, "
            "patterns, gs://."
        ),
    ] = ()
    candidate: Annotated[tuple[str, ...], SEVERAL, doc("The candidate's logs, in the same way.")] = ()
    case: Annotated[str, QUIET, doc("The case's name, where the logs do not name it.")] = ""
    target: Annotated[
        str | None,
        doc("The place of the runs: a target, or any name. Its history shows the noise, and then includes these runs."),
    ] = None
    tolerances: Annotated[
        str, doc("The tolerances: default, or other-draws for runs with other first weights or another batch.")
    ] = "default"
    aa: Annotated[bool, QUIET, doc("Both sides are meant to be the same commit.")] = False
    out: Out = DEFAULT_OUT
