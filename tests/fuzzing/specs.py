"""The formats of each dialect's rows: fields, number formats, and the relations between the numbers."""

import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

Numbers = Mapping[str, float]
_TOKEN = re.compile(r" *[-+]?(?:\d[\d,]*(?<=\d)(?:\.\d+)?(?:E[-+]\d+)?|nan|inf)", re.IGNORECASE)


@dataclass(frozen=True)
class Printed:
    """One number of a row: the text before it, its column, its format, and the factor of its value."""

    literal: str
    column: str
    form: str
    low: float
    high: float
    exponent: str = ""  # moves the decimal point: "e-3" for milliseconds
    older: str = ""  # the format of earlier versions
    skippable: bool = False  # omitted if the iteration was skipped
    open: bool = False  # may be NaN or infinite
    # computed from the numbers before it and one number that is constant in the log
    tied: Callable[[Mapping[str, float], float], float] | None = None

    def text(self, value: float) -> str:
        """The number as the trainer prints it."""
        whole = self.form.endswith(("d", ",")) and math.isfinite(value)
        return format(int(value) if whole else value, self.form.replace("d", "") if not whole else self.form)


@dataclass(frozen=True)
class Spec:
    """A dialect's row format: `head` and `step_form` before the fields, `ends` behind them."""

    name: str
    prefix: Callable[[int], str]
    head: str
    step_form: str
    after_step: str
    fields: tuple[Printed, ...]
    between: str  # the end of a field
    before: tuple[str, ...]  # first lines of the log
    after: tuple[str, ...]
    skips: bool = False
    other: Callable[[random.Random], Sequence[str]] = lambda _: ()  # other lines, some before each row
    second: tuple[str, str] = ("", "")  # distinguishes another writer's prefix from the first one's
    head_column: str = "step"  # the meaning of the number in the head

    def row(self, draw: random.Random, step: int, constants: Numbers) -> tuple[str, dict[str, float]]:
        """A row without its prefix, and its numbers by column."""
        values: dict[str, float] = {"step": step}
        skipped, lost = self.skips and draw.random() < 0.2, draw.random() < 0.03
        text, numbers = self.head + format(step, self.step_form) + self.after_step, {self.head_column: float(step)}
        for each in self.fields:
            if skipped and each.skippable:
                continue
            value = draw.uniform(each.low, each.high)
            if each.open and lost:
                value = draw.choice((math.nan, math.nan, math.inf, -math.inf))
            if each.tied:
                value = each.tied(values, constants[each.column])
            values[each.column] = value
            if each.column == "number of skipped iterations":
                value = float(skipped)
            printed = each.text(value)
            numbers[each.column] = value_of(printed, each)
            text += each.literal + printed + self.between
        return text, numbers


def token_of(text: str) -> str | None:
    """The number at the start of a text, padding included."""
    found = _TOKEN.match(text)
    return found[0] if found else None


def value_of(printed: str, each: Printed) -> float:
    plain = printed.strip().replace(",", "")
    return float(plain + each.exponent if plain[-1].isdigit() else plain)


def _absl(step: int) -> str:
    return f"I0418 00:{step // 60 % 60:02d}:{step % 60:02d}.221671 135104514455360 metric_logger.py:196] "


def _bracket(step: int) -> str:
    return f" [2025-06-28 18:{step // 60 % 60:02d}:{step % 60:02d}] "


def _titan(step: int) -> str:
    return f"[rank0]:[titan] 2025-06-20 19:{step // 60 % 60:02d}:{step % 60:02d},663 - root - INFO - "


def _rate(values: Numbers, work: float) -> float:
    return work / values["seconds"]


_MAXTEXT = (
    Printed("", "seconds", ".3f", 0.1, 30), Printed("TFLOP/s/device: ", "tflops_per_device", ".3f", 1, 400, tied=_rate),
    Printed("Tokens/s/device: ", "tokens_per_s_per_device", ".3f", 10, 20_000, tied=_rate),
    Printed("total_weights: ", "total_weights", "d", 1000, 70_000), Printed("loss: ", "loss", ".3f", 1, 12, open=True),
)  # fmt: skip
_NEWER = (
    Printed("lm_loss: ", "lm_loss", ".3f", 1, 12, open=True),
    Printed("perplexity: ", "perplexity", ".3f", 1, 1, tied=lambda values, _: math.exp(values["lm_loss"])),
)


def _maxtext_facts(draw: random.Random) -> Sequence[str]:
    """Lines that MaxText prints once: values of its config, the parameters, the compiler's forecast, the devices'
    memory.
    """
    used, limit = round(draw.uniform(0.1, 30), 2), round(draw.uniform(31, 96), 2)
    return draw.sample((
        f"Config param steps: {draw.randrange(10, 999)}", f"Config param learning_rate: {draw.uniform(1e-6, 1):.2e}",
        f"number parameters: {draw.uniform(0, 20):.3f} billion",
        f"Total memory size: {used + 3:.1f} GB, Output size: {used:.1f} GB, Temp size: {draw.uniform(0, 9):.1f} GB, "
        f"Argument size: {used / 2:.1f} GB, Host temp size: 0.0 GB.",
        f"\tUsing (GB) {used} / {limit} ({used / limit:%}) on "
        f"TPU_{draw.randrange(8)}(process=0,(0,0,0,0))",
    ), draw.randrange(5))  # fmt: skip


def _megatron_facts(draw: random.Random) -> Sequence[str]:
    """Schedule events, memory rows, parameters and timers."""
    rank = draw.randrange(16)
    return draw.sample((
        *(
            f"rank {rank} {way} {event} tensor {draw.randrange(64)}"
            for way in ("forward", "backward") for event in ("start", "finished")
        ),
        f"[Rank {rank}] (after {draw.randrange(1, 99)} iterations) memory (MB) | allocated: {draw.uniform(1, 9e4)} | "
        f"max allocated: {draw.uniform(1, 9e4)} | reserved: {draw.randrange(90_000)}.0",
        f" > number of parameters on (tensor, pipeline) model parallel rank ({draw.randrange(4)}, {draw.randrange(4)}):"
        f" {draw.randrange(1, 10**10)}",
        f"    forward-backward {'.' * 31}: ({draw.uniform(1, 99):.2f}, {draw.uniform(99, 200):.2f})",
    ), draw.randrange(7))  # fmt: skip


def _commas(fields: tuple[Printed, ...]) -> tuple[Printed, ...]:
    return tuple(replace(each, literal=("" if not n else ", ") + each.literal) for n, each in enumerate(fields))


SPECS = (
    Spec(
        "maxtext", _absl, "completed step: ", "d", ", seconds: ", _commas((*_MAXTEXT, *_NEWER)), "",
        ("XPK Start: Sat Apr 18 00:00:00 UTC 2026", "System Information: Jax Version: 0.9.2"),
        ("XPK End: Sat Apr 18 01:00:00 UTC 2026", "EXIT_CODE=0"), other=_maxtext_facts,
    ),
    Spec(
        "maxview", lambda step: "", "completed step: ", "d", ", seconds: ", _commas(_MAXTEXT), "",
        ("System Information: Jax Version: 0.12.0",), ("EXIT_CODE=0",),
        other=_maxtext_facts,
    ),
    Spec(
        "megatron", _bracket, "iteration ", "8d", "/     200 |", (
            Printed(" consumed samples: ", "consumed samples", "12d", 1, 10**6),
            Printed(" elapsed time per iteration (ms): ", "seconds", ".1f", 100, 9999, exponent="e-3"),
            Printed(" learning rate: ", "learning rate", ".6E", 1e-6, 1e-3),
            Printed(" global batch size: ", "global batch size", "5d", 8, 64),
            Printed(" lm loss: ", "loss", ".6E", 1, 12, skippable=True, open=True),
            Printed(" loss scale: ", "loss scale", ".1f", 1, 70_000),
            Printed(" grad norm: ", "grad norm", ".3f", 0, 90, skippable=True, open=True),
            Printed(" number of skipped iterations: ", "number of skipped iterations", "3d", 0, 1),
            Printed(" number of nan iterations: ", "number of nan iterations", "3d", 0, 0),
        ), " |", ("using world size: 8, data-parallel size: 8",),
        ("[after training is done] datetime: 2025-06-28 19:00:00 ",), skips=True,
        other=_megatron_facts,
    ),
    Spec(
        "torchtitan", _titan, "step: ", "2d", "", (
            Printed("  loss: ", "loss", "8.5f", 1, 13, older="7.4f", open=True),
            Printed("  grad_norm: ", "grad_norm", "7.4f", 0, 99, open=True),
            Printed("  memory: ", "memory_gib", "5.2f", 1, 99), Printed("GiB(", "memory_pct", ".2f", 1, 99),
            Printed("%)  tps: ", "tokens_per_s_per_device", ",", 100, 99_999),
            Printed("  tflops: ", "tflops_per_device", ",.2f", 1, 2000),
            Printed("  mfu: ", "mfu", ".2f", 1, 60),
        ), "", ("[titan] 2025-06-20 19:13:39,663 - root - INFO - Training starts at step 1.",),
        ("[rank0]:[titan] 2025-06-20 19:20:39,663 - root - INFO - Training completed",),
        second=("[rank0]", "[rank1]"),
    ),
    Spec(
        "nemo", lambda step: "[default0]:", "Training epoch 0, iteration ", "d", "/199", (
            Printed(" | lr: ", "lr", ".4", 1e-7, 1e-3),
            Printed(" | global_batch_size: ", "global_batch_size", "d", 8, 64),
            Printed(" | global_step: ", "step", "d", 0, 199, tied=lambda values, _: values["step"]),
            Printed(" | reduced_train_loss: ", "loss", ".4", 0.1, 15, open=True),
            Printed(" | train_step_timing in s: ", "seconds", ".4", 0.1, 60),
            Printed(" | consumed_samples: ", "consumed_samples", "d", 1, 10**6),
        ), "", ("[NeMo I 2025-03-01 10:00:00 nemo_logging:393] Experiments will be logged",),
        ("`Trainer.fit` stopped: `max_steps=200` reached.",), head_column="iteration",
    ),
)  # fmt: skip


@dataclass
class Written:
    """A log and the numbers in it: (step, numbers, row) of every row."""

    spec: Spec
    text: bytes
    rows: Sequence[tuple[int, Numbers, str]] = field(default_factory=list)
