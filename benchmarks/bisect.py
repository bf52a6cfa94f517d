"""Measures how often `maxview bisect` finds a planted culprit (the commit that changed a metric), and in how many runs.

    nice python -m benchmarks.bisect simulate [--trials 1000]
    nice python -m benchmarks.bisect train [--kinds loss crash memory checkpoint time nothing] [--numbers 0 1 2]
    nice python -m benchmarks.bisect ledger

`simulate` draws step times with the documented noise of a TPU (Student's t), with and without outliers (3 % of the
runs, up to 5 % slower), over a line of 32 commits: once with every commit as a possible culprit, once with a ledger
that shows a different compiled program at 8 of the commits. The peer is git bisect, which compares medians of r runs of
both ends and every midpoint. r is the smallest number of runs with at most our rate of wrong answers: once for each
noise, and once for both noises together, because a user does not know the machine's noise beforehand. git bisect
ignores the compiled programs, and names a commit even if there is no culprit. `clocks`: a machine with two clock states
(40 % of the runs are 3 % slower) and the stated noise of a TPU; `gpu clocks`: 6 % slower, and a GPU's noise. `train`
creates a repository of the tiny trainer with 32 commits (four change the trainer's source, and one of these is the
culprit), and runs the flow's own search with real trainings. `ledger` times the compile ledger of 32 commits with
different sources, twice.
"""

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.machine import describe_machine
from questions.bisect.search import next_action
from questions.bisect.terms import Finish, Line, SearchLimits
from tests.questions.bisect.simulated import GPU, TPU, SimulatedTimes, step

ROOT = Path(__file__).parent.parent
COMMITS = 32
POINTS = COMMITS + 1
MAX_REPEATS = 9
SLOWED, SLOWEST = 0.03, 0.05
SLOW_CLOCK = 0.4  # share of runs in the slower of two clock states
CLOCKS = {"clocks": 0.03, "gpu clocks": 0.06}  # distance of the two states, as a share of the step time
STATED = {"gpu clocks": GPU}  # the noise stated in the verdict rule; TPU for the others
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
    # 0.02 s of processor time: about 30 % of a step
    "time": ("model/train/loop.py", STILL, SPIN),
}
SMALL = ("--set", "steps=4", "--set", "max_target_length=32")
SETTINGS = {"time": ("--set", "steps=30")}  # config of a kind instead of SMALL: a step of 60 ms of processor time
TOUCHED = 3  # commits that change the source without an effect
DATE = "2026-01-01T00:00:00+00:00"  # date of every commit, so that searches share the good commit's runs

type Draw = Callable[[], float]


def make_draw(random_: np.random.Generator, noise: str) -> Draw:
    """Return a function that draws a run's deviation from the logarithm of its commit's step time."""

    stated = STATED.get(noise, TPU)

    def draw() -> float:
        value = stated.scale / 2**0.5 * float(random_.standard_t(stated.df))
        if noise == "slowed" and random_.random() < SLOWED:
            value += SLOWEST * float(random_.random())
        if noise in CLOCKS and random_.random() < SLOW_CLOCK:
            value += CLOCKS[noise]
        return value

    return draw


def search(truth: Sequence[float], draw: Draw, line: Line, noise: str, *, ends: int = 0) -> tuple[Finish, int]:
    """Return our answer and the number of runs.

    ends: draw this many runs of each end before the search, until they show both clock states; 0: start without runs.
    """
    judge = SimulatedTimes(truth, draw, noise=STATED.get(noise, TPU))
    while ends and judge.spread() < CLOCKS[noise] / 2:
        judge.values.clear()
        for point in (0, COMMITS) * ends:
            judge.train(point)
    while True:
        action = next_action(line, judge, SearchLimits())
        if isinstance(action, Finish):
            return action, judge.total
        for point in action.points:
            judge.train(point)


def git_bisect(truth: Sequence[float], draw: Draw, repeats: int) -> tuple[int, int]:
    """Return git bisect's answer with r runs of each commit, and its total number of runs."""

    def level(point: int) -> float:
        return truth[point] + float(np.median([draw() for _ in range(repeats)]))

    good, bad, low, high, visited = level(0), level(COMMITS), 0, COMMITS, 2
    while high - low > 1:
        middle = (low + high) // 2
        here = level(middle)
        visited += 1
        low, high = (middle, high) if abs(here - good) < abs(here - bad) else (low, middle)
    return high, visited * repeats


def weigh_commits(random_: np.random.Generator, culprit: int, programs: int) -> Line:
    """Return a line in which this many commits, with the culprit, change the program; 0: all commits are suspects."""
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
        for programs in (0, 8):
            random_ = np.random.default_rng(SEED)
            draws = {noise: make_draw(random_, noise) for noise in ("t", "slowed")}
            ours = {noise: _simulate(size, noise, random_, programs, trials) for noise in draws}
            for noise, (shown, wrong, runs) in ours.items():
                peer = _peer(size, [draws[noise]], random_, trials, wrong)
                print(
                    f"{size:+8.0%} {noise:>7} {programs or COMMITS:>9} | {shown} | {_show_peer(peer, runs)}", flush=True
                )
            wrong, runs = (float(np.mean([one[at] for one in ours.values()])) for at in (1, 2))
            peer = _peer(size, list(draws.values()), random_, trials, wrong)
            print(
                f"{size:+8.0%}  either {programs or COMMITS:>9} | {'':37} {runs:5.1f}      | {_show_peer(peer, runs)}"
            )
    clocks = [("clocks", size, ends) for size in (0.0, 0.02, 0.05) for ends in (0, 3)]
    clocks += [("gpu clocks", size, 0) for size in (0.0, 0.05, 0.1)]
    for noise, size, ends in clocks:
        shown, _, _ = _simulate(size, noise, np.random.default_rng(SEED), 0, trials, ends=ends)
        print(
            f"{size:+8.0%} {noise:>10} {COMMITS:>6} | {shown} | {'both seen at the ends' if ends else ''}", flush=True
        )


def _simulate(
    size: float, noise: str, random_: np.random.Generator, programs: int, trials: int, *, ends: int = 0
) -> tuple[str, float, float]:
    """Return the shares of the answers as text, the share of wrong answers, and the mean number of runs."""
    counts, runs, draw = Counter[str](), [], make_draw(random_, noise)
    for _ in range(trials):
        culprit = int(random_.integers(1, POINTS))
        truth = step(size, culprit, POINTS)
        found, used = search(truth, draw, weigh_commits(random_, culprit, programs), noise, ends=ends)
        right = bool(size) and found.culprit == culprit
        counts["right" if right else "wrong" if found.culprit is not None else found.outcome] += 1
        runs.append(used)
    reported = " ".join(f"{100 * counts[word] / trials:6.1f}%" for word in ("right", "wrong", "range", "no difference"))
    return (
        f"{reported} {np.mean(runs):5.1f} {np.quantile(runs, 0.9):4.0f}",
        counts["wrong"] / trials,
        float(np.mean(runs)),
    )


def _peer(
    size: float, draws: Sequence[Draw], random_: np.random.Generator, trials: int, allowed: float
) -> tuple[int, float, float] | None:
    """Return git bisect's (runs per commit, share of wrong answers, total runs) for the smallest sufficient r."""
    if not size:
        return None
    for repeats in range(1, MAX_REPEATS + 1):
        wrong: NDArray[np.int64] = np.zeros((len(draws), trials), int)
        used = 0
        for number, draw in enumerate(draws):
            for trial in range(trials):
                culprit = int(random_.integers(1, POINTS))
                named, used = git_bisect(step(size, culprit, POINTS), draw, repeats)
                wrong[number, trial] = named != culprit
        if wrong.mean() <= allowed:
            return repeats, float(wrong.mean()), float(used)
    return None


def _show_peer(peer: tuple[int, float, float] | None, runs: float) -> str:
    if peer is None:
        return "always names a commit"
    repeats, wrong, used = peer
    return f"{repeats:5} {wrong:7.1%} {used:5.1f} {runs / used:5.2f}"


def make_repository(folder: Path) -> None:
    """Create a repository whose only commit, tagged good, is the tiny trainer. Equal calls make equal commits."""
    for part in ("model", "configs"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    loop = folder / "model/train/loop.py"
    loop.write_text(loop.read_text().replace(INPUT, f"    _planted()\n{INPUT}", 1) + "\n\n" + STILL)
    _git(folder, "init", "-q", "-b", "main")
    _commit(folder, "the start")
    _git(folder, "tag", "good")


def plant(folder: Path, branch: str, kind: str, culprit: int, touched: Collection[int]) -> None:
    """Create a branch of 32 commits: one is the culprit, `touched` change its source, the others its docs."""
    _git(folder, "checkout", "-q", "-b", branch, "good")
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
            subject = f"touch {number}"
            _append(folder / "model" / "__init__.py", f"\nUNUSED_{sorted(touched).index(number)} = 1\n")
        else:
            (folder / "docs").mkdir(exist_ok=True)
            (folder / "docs" / f"{number}.md").write_text(f"note {number}\n")
        _commit(folder, subject)


def _append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def _git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "commit.gpgsign=false"]
    dated = os.environ | {"GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE}
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True, env=dated)


def _commit(folder: Path, subject: str) -> None:
    _git(folder, "add", "-A")
    _git(folder, "commit", "-qm", subject)


def bisect(
    folder: Path, *words: str, settings: Sequence[str] = SMALL, good: str = "good", bad: str = "main"
) -> tuple[int, list[dict[str, Any]]]:
    """Run the command; return its exit status and its records."""
    argv = [sys.executable, "-m", "flows.cli", "bisect", "main-vs-branch", "--repository", str(folder / "repository")]
    argv += ["--good", good, "--bad", bad, *settings, *words, "--out", str(folder / "out"), "--json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MAXVIEW_CACHE": str(folder / "cache")}
    done = subprocess.run(argv, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, json.loads(done.stdout or "[]")


def train(kinds: Sequence[str], numbers: Sequence[int], folder: Path) -> None:
    """Print the answers of real searches. They share a store, and therefore the runs of the good commit."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "repository").exists():
        make_repository(folder / "repository")
    for number in numbers:
        for kind in kinds:
            random_ = random.Random(f"{SEED} {kind} {number}")
            culprit, *touched = random_.sample(range(1, POINTS), 1 + TOUCHED)
            branch = f"{kind}-{number}"
            plant(folder / "repository", branch, kind, culprit, touched)
            began = _Clock()
            status, records = bisect(folder, settings=SETTINGS.get(kind, SMALL), bad=branch)
            (record,) = records or ({},)
            named = record.get("culprit")
            right = named == culprit if kind != "nothing" else named is None
            print(
                f"{branch:>14}: planted {culprit}, named {named}: {'right' if right else 'WRONG'}; "
                f"{record.get('runs')} runs of {record.get('trained')} commits, {began}, "
                f"status {status}: {record.get('headline')}",
                flush=True,
            )


def time_ledger() -> None:
    """Print the seconds of `maxview bisect --free` for 32 commits with different sources, first time and again."""
    with tempfile.TemporaryDirectory(prefix="maxview-bisect-") as name:
        folder = Path(name)
        make_repository(folder / "repository")
        plant(folder / "repository", "touched", "nothing", 0, range(1, POINTS))
        _git(folder / "repository", "tag", "last", "touched~1")
        bisect(folder, "--free", good="last", bad="touched")  # starts the server; compiles two commits
        for word in ("first", "second"):
            began = _Clock()
            bisect(folder, "--free", bad="touched")
            print(f"ledger of {COMMITS} commits, {word} time: {began} with the command's own start", flush=True)


class _Clock:
    """A clock that shows wall seconds, and processor seconds of ended child processes, since its creation."""

    def __init__(self) -> None:
        self._began, self._used = time.monotonic(), self._children()

    def __str__(self) -> str:
        return f"{time.monotonic() - self._began:.0f} s ({self._children() - self._used:.0f} s of processor)"

    def _children(self) -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("simulate", "train", "ledger"))
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--kinds", nargs="+", choices=(*PLANTED, "nothing"), default=[*PLANTED, "nothing"])
    parser.add_argument("--numbers", nargs="+", type=int, default=[0], help="searches of each kind")
    parser.add_argument("--folder", type=Path, help="keeps repository and runs; omit for a temporary folder")
    given = parser.parse_args()
    print(describe_machine())
    if given.what == "simulate":
        simulate(given.trials)
    elif given.what == "ledger":
        time_ledger()
    elif given.folder:
        train(given.kinds, given.numbers, given.folder)
    else:
        with tempfile.TemporaryDirectory(prefix="maxview-bisect-") as name:
            train(given.kinds, given.numbers, Path(name))


if __name__ == "__main__":
    main()
