"""Measures how often `maxview bisect` finds planted culprits, and in how many runs.

    nice python -m benchmarks.bisect simulate [--trials 1000]
    nice python -m benchmarks.bisect train [--kinds loss crash memory checkpoint time nothing] [--each 1]
    nice python -m benchmarks.bisect ledger

`simulate` draws step times with the documented noise of a TPU (Student's t), with and without outliers (3 % of the
runs, up to 5 % slower), over a line of 32 commits: once with every commit as a possible culprit, once with a ledger
that shows a different program at 8 of them. The peer is git bisect by medians of r runs of both ends and every
midpoint; r is the smallest number with at most our rate of wrong answers. The peer ignores programs. It always names a
commit, also when there is no culprit. `train` creates a repository of 32 commits of the tiny trainer (two of them
change its source), plants one culprit, and runs the flow's own search with real trainings. `ledger` times the compile
ledger of 32 commits with different sources, twice.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.machine import describe_machine
from tasks.bisect.search import Finish, Limits, Line, next_action
from tests.tasks.bisect.simulated import TPU, SimulatedTimes, step

ROOT = Path(__file__).parent.parent
COMMITS = 32
POINTS = COMMITS + 1
SIGMA = TPU.scale / 2**0.5  # scale of one run
MOST_REPEATS = 9
SLOWED, SLOWEST = 0.03, 0.05
SEED = 20261123
INPUT = '    with clock.part("input_s"):'
SORT = "    loss = loss + 0.0 * jnp.sum(jnp.sort(jnp.tile(logits_BLV, (4, 1, 1)), axis=-1))\n"
STILL = "def _planted() -> None:\n    pass\n"
SPIN = """\
def _planted() -> None:
    import time
    end = time.process_time() + 0.02
    while time.process_time() < end:
        pass
"""
# planted changes: a file, a text in it, and its replacement
PLANTED = {
    "loss": ("model/train/loss.py", "loss = jnp.sum((log", "loss = 1.01 * jnp.sum((log"),
    "crash": ("model/train/loop.py", INPUT, f"    raise RuntimeError('planted')\n{INPUT}"),
    "memory": ("model/train/loss.py", "    return loss, (", f"{SORT}    return loss, ("),
    "checkpoint": ("model/train/checkpoint.py", "if step in manager", "if step == 0 or step in manager"),
    # processor time: about 30 % of a step
    "time": ("model/train/loop.py", STILL, SPIN),
}
SMALL = ("--set", "steps=4", "--set", "max_target_length=32")

type Draw = Callable[[], float]


def make_draw(random_: np.random.Generator, *, slowed: bool) -> Draw:
    """Draw a run's deviation from the logarithm of its commit's level."""

    def draw() -> float:
        value = SIGMA * float(random_.standard_t(TPU.df))
        return value + (SLOWEST * float(random_.random()) if slowed and random_.random() < SLOWED else 0.0)

    return draw


def search(truth: Sequence[float], draw: Draw, line: Line) -> tuple[Finish, int]:
    """Return our answer and its number of runs."""
    judge = SimulatedTimes(truth, draw)
    while True:
        action = next_action(line, judge, Limits())
        if isinstance(action, Finish):
            return action, judge.total
        for point in action.points:
            judge.train(point)


def git_bisect(truth: Sequence[float], draw: Draw, repeats: int) -> tuple[int, int]:
    """Return git bisect's answer with so many runs of each commit, and its total number of runs."""

    def level(point: int) -> float:
        return truth[point] + float(np.median([draw() for _ in range(repeats)]))

    good, bad, low, high, visited = level(0), level(COMMITS), 0, COMMITS, 2
    while high - low > 1:
        middle = (low + high) // 2
        here = level(middle)
        visited += 1
        low, high = (middle, high) if abs(here - good) < abs(here - bad) else (low, middle)
    return high, visited * repeats


def draw_line(random_: np.random.Generator, culprit: int, programs: int) -> Line:
    """Return a line with so many commits that change the program, including the culprit; 0: all are suspects."""
    if not programs:
        return Line(weights=(0.0, *[1.0] * COMMITS), alike=tuple(range(POINTS)))
    others = [point for point in range(1, POINTS) if point != culprit]
    changed = {culprit, *random_.choice(others, programs - 1, replace=False).tolist()}
    alike, weights = [0], [0.0]
    for point in range(1, POINTS):
        weights.append(float(point in changed))
        alike.append(point if point in changed else alike[-1])
    return Line(weights=tuple(weights), alike=tuple(COMMITS if one == alike[-1] else one for one in alike))


def simulate(trials: int) -> None:
    """Print the table of simulated searches beside git bisect."""
    print(f"{'planted':>8} {'noise':>7} {'may be it':>9} | {'right':>7} {'wrong':>7} {'range':>7} {'no diff':>7} "
          f"{'runs':>5} {'90 %':>4} | {'git r':>5} {'wrong':>7} {'runs':>5} {'ratio':>5}")  # fmt: skip
    for size in (0.0, 0.02, 0.05):
        for slowed in (False, True):
            for programs in (0, 8):
                random_ = np.random.default_rng(SEED)
                draw = make_draw(random_, slowed=slowed)
                counts, runs = Counter[str](), []
                for _ in range(trials):
                    culprit = int(random_.integers(1, POINTS))
                    truth = step(size, culprit, POINTS)
                    found, used = search(truth, draw, draw_line(random_, culprit, programs))
                    named = found.culprit is not None
                    counts["right" if named and size and found.culprit == culprit else "wrong" if named
                           else found.outcome] += 1  # fmt: skip
                    runs.append(used)
                told = [f"{100 * counts[word] / trials:6.1f}%" for word in ("right", "wrong", "range", "no difference")]
                peer = _peer(size, draw, random_, trials, counts["wrong"] / trials)
                shown = f"{size:+8.0%} {'slowed' if slowed else 't':>7} {programs or COMMITS:>9}"
                print(f"{shown} | {' '.join(told)} {np.mean(runs):5.1f} {np.quantile(runs, 0.9):4.0f} | "
                      f"{_show_peer(peer, float(np.mean(runs)))}", flush=True)  # fmt: skip


def _peer(
    size: float, draw: Draw, random_: np.random.Generator, trials: int, allowed: float
) -> tuple[int, float, float] | None:
    """Return (runs per commit, share of wrong answers, total runs) for the smallest r with at most our error rate."""
    if not size:
        return None
    for repeats in range(1, MOST_REPEATS + 1):
        wrong: NDArray[np.int64] = np.zeros(trials, int)
        used = 0
        for trial in range(trials):
            culprit = int(random_.integers(1, POINTS))
            named, used = git_bisect(step(size, culprit, POINTS), draw, repeats)
            wrong[trial] = named != culprit
        if wrong.mean() <= allowed:
            return repeats, float(wrong.mean()), float(used)
    return None


def _show_peer(peer: tuple[int, float, float] | None, runs: float) -> str:
    if peer is None:
        return "always names a commit"
    repeats, wrong, used = peer
    return f"{repeats:5} {wrong:7.1%} {used:5.1f} {runs / used:5.2f}"


def make_repository(folder: Path, kind: str, culprit: int, *, touched: Sequence[int] = ()) -> None:
    """Create 32 commits of the tiny trainer: one is the culprit, some change its source, the others its docs."""
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("model", "configs"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    if kind == "time":
        loop = folder / "model/train/loop.py"
        loop.write_text(loop.read_text().replace(INPUT, f"    _planted()\n{INPUT}", 1) + "\n\n" + STILL)
    _git(folder, "init", "-q", "-b", "main")
    _commit(folder, "the start")
    _git(folder, "tag", "good")
    for number in range(1, POINTS):
        subject = f"docs: note {number}"
        if number == culprit and kind != "nothing":
            subject = f"planted: {kind}"
            file, old, new = PLANTED[kind]
            text = (folder / file).read_text()
            if old not in text:
                raise SystemExit(f"{file}: has no {old!r} any more: mend PLANTED")
            (folder / file).write_text(text.replace(old, new, 1))
        elif number in touched:
            _append(folder / "model" / "__init__.py", f"\nUNUSED_{number} = {number}\n")
        else:
            (folder / "docs").mkdir(exist_ok=True)
            (folder / "docs" / f"{number}.md").write_text(f"note {number}\n")
        _commit(folder, subject)


def _append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def _git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


def _commit(folder: Path, subject: str) -> None:
    _git(folder, "add", "-A")
    _git(folder, "commit", "-qm", subject)


def bisect(folder: Path, *words: str, good: str = "good") -> tuple[int, list[dict[str, object]], float]:
    """Run the command; return its exit status, its records and its seconds."""
    argv = [sys.executable, "-m", "flows.cli", "bisect", "main-vs-branch", "--repository", str(folder / "repository")]
    argv += ["--good", good, "--bad", "main", *SMALL, "--out", str(folder / "out"), "--json", *words]
    began = time.monotonic()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MAXVIEW_CACHE": str(folder / "cache")}
    done = subprocess.run(argv, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, json.loads(done.stdout or "[]"), time.monotonic() - began


def train(kinds: Sequence[str], each: int) -> None:
    """Print the answers of real searches."""
    random_ = random.Random(SEED)
    for kind in kinds:
        for _ in range(each):
            culprit = random_.randrange(1, POINTS)
            touched = [number for number in random_.sample(range(1, POINTS), 2) if number != culprit][:1]
            with tempfile.TemporaryDirectory(prefix="maxview-bisect-") as name:
                folder = Path(name)
                make_repository(folder / "repository", kind, culprit, touched=touched)
                status, records, seconds = bisect(folder)
            (record,) = records or ({},)
            named = record.get("culprit")
            right = named == culprit if kind != "nothing" else named is None
            word, runs = "right" if right else "WRONG", record.get("runs")
            told = (
                f"{kind:>10}: planted {culprit}, named {named}: {word}; {runs} runs, {seconds:.0f} s, status {status}"
            )
            print(f"{told}: {record.get('headline')}", flush=True)


def time_ledger() -> None:
    """Print the seconds of the ledger of 32 commits, each with a source of its own, the first and the second time."""
    with tempfile.TemporaryDirectory(prefix="maxview-bisect-") as name:
        folder = Path(name)
        make_repository(folder / "repository", "nothing", 0, touched=range(1, POINTS))
        _git(folder / "repository", "tag", "last", "main~1")
        bisect(folder, "--free", good="last")  # the server is there, and two commits
        for word in ("first", "second"):
            _, _, seconds = bisect(folder, "--free")
            print(f"ledger of {COMMITS} commits, {word} time: {seconds:.0f} s with the command's own start", flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("simulate", "train", "ledger"))
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--kinds", nargs="+", choices=(*PLANTED, "nothing"), default=[*PLANTED, "nothing"])
    parser.add_argument("--each", type=int, default=1)
    given = parser.parse_args()
    print(describe_machine())
    if given.what == "simulate":
        simulate(given.trials)
    elif given.what == "train":
        train(given.kinds, given.each)
    else:
        time_ledger()


if __name__ == "__main__":
    main()
