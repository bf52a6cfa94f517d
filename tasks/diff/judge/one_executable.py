"""Decides the rows of one executable before any experiment, and whether both host loops have to be timed."""

from tasks.diff.examine.examination import Examination
from tasks.diff.judge.host_rows import is_open
from tasks.diff.judge.run_rows import decide_runs
from tasks.metrics.time_metrics import CPU_TIME, STEP_TIME

TIMES = frozenset({STEP_TIME.name, CPU_TIME.name})


def decide_one_executable(examined: Examination) -> Examination:
    """Return the examination with its rows, if all runs ended well with one executable; else unchanged.

    The host loops are needed if only the time of a step is open.
    """
    if not examined.proved or examined.shown.baseline.has_died or examined.shown.candidate.has_died:
        return examined
    decided = decide_runs(examined)
    left = {row.metric for row in decided.rows if row.verdict == "unknown"}
    weak = any(is_open(row) for row in decided.rows if row.metric in TIMES)
    hosts = frozenset({"host"} if weak and left <= TIMES else ())
    return examined.replace(decided=decided, needed=examined.needed | hosts)
