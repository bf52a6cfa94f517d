# ruff: noqa: E501 – the lines of these logs are long
"""Tracebacks under the line prefixes of launchers, log collectors and people."""

import pytest

from tasks.records.run_end import LogError
from tasks.scrape.death.tracebacks import NO_MARK, lines_above, marks_of
from tasks.scrape.read_log import scrape_text

# as in public logs, each with its repository
MARKS = {
    "quoted": "> ",  # Sea-Snell/JAXSeq#2
    "indented": "    ",
    "srun -l": " 3: ",
    "ray": "(RayTrainWorker pid=354, ip=10.72.1.31) ",  # ray-project/ray#66055
    "torchrun": "[default0]:",
    "twice": "[rank0]:[rank0]: ",  # pytorch/torchtitan#3360
    "compose": "khoj_1                  | ",  # khoj-ai/khoj#116
    "journald": "Nov 21 10:00:0{n} tpu-host-0 python3[1234]: ",
    "mpirun": "[1,0]<stdout>:",
    "xla_dist": "2020-10-22 02:48:5{n} 10.128.0.33 [3] ",  # pytorch/xla#2569
    "determined": "[2022-07-01T18:30:09.00511{n}Z] a9924afd [rank=3] || ",  # determined-ai/determined#4474
    "loguru": "2025-08-28 10:00:00.12{n} | INFO     | run:stream:42 - ",
    "airflow": "[2025-08-28, 10:00:0{n} UTC] {{xpk.py:123}} INFO - ",
    "grep -n": "{n}:",
    "cat -n": "   {n}\t",
    "diff": "+",
    "logged": "I0828 10:00:00.12345{n} 140 run.py:10] ",
}
MAXTEXT = "completed step: {n}, seconds: 5.658, TFLOP/s/device: 135.158, Tokens/s/device: 8687.815, total_weights: 196608, loss: 11.689"
MEGATRON = " iteration {n:8d}/     500 | consumed samples:         1024 | elapsed time per iteration (ms): 86545.2 | learning rate: 9.150E-06 | global batch size:  1024 | lm loss: 2.504220E+00 | loss scale: 1.0 | grad norm: 0.231 | number of skipped iterations:   0 | number of nan iterations:   0 |"
TORCHTITAN = "[titan] 2026-05-18 16:04:46,338 - root - INFO - step: {n:2d}  loss:  3.24405  grad_norm:  0.8319  memory:  9.46GiB(64.99%)  tps: 7,282  tflops: 0.52  mfu: 0.17%"
TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/w/train.py", line 200, in <module>',
    "    main()",
    "    ^^^^^^",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
]


def error_of(lines: list[str]) -> LogError:
    """The cause of death in a log of these lines; all of its steps must be read."""
    run = scrape_text("".join(f"{line}\n" for line in lines).encode(), name="x").runs[0]
    assert run.steps.height == run.coverage.step_lines_seen == 2
    assert run.error is not None
    return run.error


@pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS)
@pytest.mark.parametrize("form", [MAXTEXT, MEGATRON, TORCHTITAN], ids=["maxtext", "megatron", "torchtitan"])
def test_the_exception_under_a_mark(form: str, mark: str) -> None:
    texts = [form.format(n=1), form.format(n=2), *TRACEBACK]
    error = error_of([mark.format(n=number) + text for number, text in enumerate(texts, 1)])
    assert (error.type, error.kind, error.line) == ("torch.OutOfMemoryError", "device_oom", 7)
    assert TRACEBACK[-1].endswith(f": {error.message}")


@pytest.mark.parametrize("form", [MAXTEXT, MEGATRON], ids=["maxtext", "megatron"])
@pytest.mark.parametrize("mark", ["> ", "(Trainer pid=1{n}) ", "[rank1]: "])
def test_a_chain_under_a_mark_is_one(form: str, mark: str) -> None:
    joint = ["", "The above exception was the direct cause of the following exception:", ""]
    second = [*TRACEBACK[:4], "RuntimeError: the step failed"]
    texts = [form.format(n=1), form.format(n=2), *TRACEBACK, *joint, *second]
    error = error_of([(mark.format(n=number % 10) + text).rstrip() for number, text in enumerate(texts, 1)])
    assert (error.type, error.line) == ("RuntimeError", 15)


def test_interleaved_lines_of_two_ranks() -> None:
    first = [f"[rank0]: {line}" for line in TRACEBACK]
    second = [f"[rank1]: {line}" for line in [*TRACEBACK[:4], "ValueError: of rank 1"]]
    mixed = [line for pair in zip(first, second, strict=True) for line in pair]
    error = error_of([MEGATRON.format(n=1), MEGATRON.format(n=2), *mixed])
    assert (error.type, error.line) == ("torch.OutOfMemoryError", 11)


def test_an_ignored_exception_under_a_mark() -> None:
    texts = [MAXTEXT.format(n=1), MAXTEXT.format(n=2), "Exception ignored in: <function A.__del__ at 0x7f>", *TRACEBACK]
    run = scrape_text("".join(f"> {line}\n" for line in texts).encode(), name="x").runs[0]
    assert run.error is None


def test_a_record_before_a_traceback_is_not_a_mark() -> None:
    text = b"E0418 00:00:05.000000 1351 a.py:1] failed: Traceback (most recent call last):\n  File\nValueError: a\n"
    position = text.index(b"Traceback")
    assert marks_of(text, position, len(text)) == [NO_MARK]
    assert lines_above(text, position, 0, NO_MARK) == text[:position]
    assert lines_above(b"> a\nb\n> Traceback", 8, 0, b"> ") == b"a\n"


@pytest.mark.parametrize("form", [MAXTEXT, MEGATRON, TORCHTITAN], ids=["maxtext", "megatron", "torchtitan"])
def test_a_log_that_begins_inside_a_traceback(form: str) -> None:
    """`kubectl logs --tail=20` of a run that was retried, and died again with its whole traceback or none."""
    frames = ["    main()", '  File "/w/maxtext/train.py", line 200, in main', "    step()", "ValueError: of the head"]
    run = scrape_text("".join(f"{line}\n" for line in [*frames, "EXIT_CODE=1"]).encode(), name="x").runs[0]
    assert run.error is not None
    assert (run.error.type, run.error.message, run.error.line) == ("ValueError", "of the head", 4)
    again = [*frames, form.format(n=1), form.format(n=2)]
    assert scrape_text("".join(f"{line}\n" for line in again).encode(), name="x").runs[0].error is None
    assert error_of([*again, *TRACEBACK]).line == 11


def test_an_indented_header_without_frames_is_not_a_traceback() -> None:
    lines = ["    main()", "ValueError: of nothing", MEGATRON.format(n=1)]
    assert scrape_text("".join(f"{line}\n" for line in lines).encode(), name="x").runs[0].error is None
