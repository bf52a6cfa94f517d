"""Generates example logs: a week of nightly runs with a regression, a gain, more parameters, a slow host, a death.

Each night, each item of CASES compares a case (a model and its settings) between two arms (versions of the trainer).
"""

import hashlib
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

from configs.frozen import Frozen
from tasks.records.plan import Commit

FIRST = datetime(2026, 11, 15, 2, 0, tzinfo=UTC)  # start of the first night
NIGHTS = 7  # number of nights
STEPS = 80  # steps of a run that does not die
MOVED_FROM, DIED_ON = 4, 6  # first night (from 0) with the branch's last commit; first night with a death
LINEN_VS_NNX, MAIN_VS_BRANCH = "linen-vs-nnx", "main-vs-branch"
BRANCH = "feat/fused-attention"
CASES = (
    (LINEN_VS_NNX, "01_base"), (LINEN_VS_NNX, "03_dropout"), (LINEN_VS_NNX, "16_f32_exact"),
    (MAIN_VS_BRANCH, "01_base"), (MAIN_VS_BRANCH, "03_dropout"), (MAIN_VS_BRANCH, "04_int8"),
    (MAIN_VS_BRANCH, "06_moe"), (MAIN_VS_BRANCH, "10_shardy_true"), (MAIN_VS_BRANCH, "16_f32_exact"),
)  # fmt: skip
REPEATS = 3  # usual runs of each arm
# case and night of the branch with one run of each arm, which decides only a large difference
ONE_RUN = (("03_dropout", NIGHTS - 1), ("16_f32_exact", NIGHTS - 1))
FURTHER = 2  # extra runs of an arm with one run: the comparison's page suggests a command that needs them
PACE = {"01_base": 0.94, "04_int8": 1.08}  # case → step time of the branch ÷ that of main, from MOVED_FROM on

SUBJECTS = (
    "fused attention: a kernel of its own for the forward pass",
    "fused attention: scales in float32",
    "fused attention: gather before the kernel, so that int8 goes through it too",
)  # subjects of the branch's commits, the oldest first; the last commit causes the regression


class ExamplePair(Frozen):
    """The logs of one generated comparison of one night."""

    comparison: str
    case: str
    night: int  # from 0
    created: datetime
    names: tuple[str, str]  # of the baseline and of the candidate
    logs: tuple[tuple[str, ...], tuple[str, ...]]  # text of the log of each run, for both arms
    further: tuple[tuple[str, ...], tuple[str, ...]]  # logs of the extra runs
    commits: tuple[Commit, ...] = ()  # the branch's, the newest first, then main's; () without a branch


def example_pairs() -> Iterator[ExamplePair]:
    """Yield every comparison of the week, night by night; every call yields the same logs."""
    for night in range(NIGHTS):
        for number, (comparison, case) in enumerate(CASES):
            start = FIRST + timedelta(days=night, minutes=12 * number)
            on_branch = comparison == MAIN_VS_BRANCH
            names = ("main", BRANCH) if on_branch else ("linen", "nnx")
            has_moved = on_branch and night >= MOVED_FROM
            count = 1 if on_branch and (case, night) in ONE_RUN else REPEATS
            starts = [start + timedelta(minutes=2 * run) for run in range(count + FURTHER * (count == 1))]
            write = partial(
                _log,
                slower=PACE.get(case, 1.0) if has_moved else 1.0,
                host=on_branch and case == "03_dropout" and night == NIGHTS - 1,
                dies=on_branch and case == "10_shardy_true" and night >= DIED_ON,
                parameters="0.002" if has_moved and case == "06_moe" else "0.001",
            )
            baseline = tuple(_log(f"{night} {case} {names[0]} {at}", at) for at in starts)
            candidate = tuple(write(f"{night} {case} {names[1]} {at}", at + timedelta(minutes=1)) for at in starts)
            yield ExamplePair(
                comparison=comparison, case=case, night=night, created=start + timedelta(minutes=10), names=names,
                logs=(baseline[:count], candidate[:count]), further=(baseline[count:], candidate[count:]),
                commits=_commits(len(SUBJECTS) - (night < MOVED_FROM)) if on_branch else (),
            )  # fmt: skip


def _commits(count: int) -> tuple[Commit, ...]:
    """Return the first `count` commits of the branch, the newest first, followed by main's."""
    made = [
        Commit(
            sha=hashlib.sha1(subject.encode()).hexdigest(),
            time=(FIRST + timedelta(days=day - 1, hours=14)).isoformat(),
            author="A. Example",
            subject=subject,
        )
        for day, subject in enumerate(("where the branch begins", *SUBJECTS))
    ]
    return tuple(reversed(made[: count + 1]))


def _log(
    seed: str, now: datetime, *, slower: float = 1.0, host: bool = False, dies: bool = False, parameters: str = "0.001"
) -> str:
    """Return the text of one log in MaxText's format, of a run that starts at `now`.

    seed: for the noise of the step times. slower: factor of the step times. host: whether 2 of 3 steps wait for input.
    dies: whether the run dies at step 30. parameters: their count in billions.
    """
    draw = random.Random(seed)
    lines = [f"XPK Start: {now:%a %b %d %H:%M:%S} UTC 2026"]

    def say(text: str, source: str) -> None:
        lines.append(f"I{now:%m%d %H:%M:%S}.{now.microsecond:06d} 135278194456384 {source}] {text}")

    now += timedelta(seconds=20)
    say("System Information: Jax Version: 0.9.2", "max_utils.py:800")
    say("System Information: Jaxlib Version: 0.9.2", "max_utils.py:801")
    say("System Information: Jax Backend: PJRT C API", "max_utils.py:802")
    lines.append("TFRT TPU v6 lite")
    say(f"number parameters: {parameters} billion", "max_utils.py:194")
    for step in range(STEPS):
        if dies and step == 30:
            lines += [
                "Traceback (most recent call last):",
                '  File "/deps/src/maxtext/trainers/pre_train/train.py", line 512, in train_step',
                "    state, metrics = p_train_step(state, example_batch)",
                "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Error allocating device "
                "buffer: Attempting to allocate 7.85G. That was not possible. There are 6.00G free.; (0x0x0_HBM0)",
                f"XPK End: {now:%a %b %d %H:%M:%S} UTC 2026",
                "EXIT_CODE=1",
            ]
            return "\n".join(lines) + "\n"
        seconds = 0.080 * slower * (1 + 0.006 * draw.gauss(0, 1))
        seconds += 9.0 if step == 0 else 0.020 if host and step % 3 else 0.0
        now += timedelta(seconds=seconds)
        loss = 10.9 - 4.2 * (1 - 0.96**step)
        say(
            f"completed step: {step}, seconds: {seconds:.3f}, TFLOP/s/device: {1.08 / seconds:.3f}, "
            f"Tokens/s/device: {163.84 / seconds:.3f}, total_weights: 65536, loss: {loss:.3f}",
            "metric_logger.py:196",
        )
    now += timedelta(seconds=8)
    lines += [f"XPK End: {now:%a %b %d %H:%M:%S} UTC 2026", "EXIT_CODE=0"]
    return "\n".join(lines) + "\n"
