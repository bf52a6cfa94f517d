"""Computes the facts of a run, which its record stores: step time levels, time account, and each metric's value."""

import hashlib
from functools import cache
from pathlib import Path

from tasks.metrics.merged_steps import cpu_seconds, timed_steps, waited_per_step
from tasks.metrics.step_time_levels import find_levels
from tasks.metrics.table import METRICS
from tasks.metrics.time_account import account_death, account_run, seconds_between_steps
from tasks.metrics.time_metrics import CPU_TIME, STEP_TIME
from tasks.records.run import RunRecord
from tasks.records.run_facts import RunFacts


def facts_of_run(run: RunRecord) -> RunFacts:
    """Return the facts of a run: the stored facts if this package's code is still the same, else computed facts."""
    if run.facts is not None and run.facts.code == digest_package():
        return run.facts
    return run.derive("facts", compute_facts)


def with_facts(run: RunRecord) -> RunRecord:
    """Return a copy of the record with newly computed facts, to be stored."""
    return run.replace(facts=compute_facts(run))


def compute_facts(run: RunRecord) -> RunFacts:
    """Compute the facts of a run from its parsed log, its metrics file and the trainer's report."""
    table, unit = timed_steps(run)
    seconds, waited = table["seconds"].to_numpy()[1:], waited_per_step(run)
    wall = find_levels(seconds, unit=unit)
    # waiting for other programs on the same machine is not counted as step time: docs/decisions/0050
    steady = wall if waited is None else find_levels(seconds - waited, unit=unit)
    between = seconds_between_steps(run)
    wall, steady = (levels and levels.replace(mean=levels.mean + between) for levels in (wall, steady))
    used = cpu_seconds(run)
    found = {STEP_TIME.name: steady, CPU_TIME.name: None if used is None else find_levels(used)}
    facts = RunFacts(
        code=digest_package(),
        levels={name: levels for name, levels in found.items() if levels},
        wall=wall,
        account=account_run(run) or account_death(run),
    )
    values = {metric.name: value for metric in METRICS if (value := metric.value_of(run, facts))}
    return facts.replace(values=values)


@cache
def digest_package() -> str:
    """Return a digest of this package's source. It is stored with the facts: another digest makes them stale."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]
