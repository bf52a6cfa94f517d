"""A log reads the same with its line breaks, with spaces instead, or with carriage returns before them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tasks.records.log_reading import RunReading
from tasks.scrape.read_log import scrape_text

TRACEBACK = """Traceback (most recent call last):
  File "/deps/src/maxtext/train.py", line 744, in <module>
    app.run(main)
    ^^^^^^^^^^^^^
  File "/deps/src/maxtext/train_utils.py", line 217, in setup_train_loop
    raise {name}("{message}")
{name}: {message}"""
SAVE = (
    "[process=0] Saving checkpoint at step {step}",
    "[process=0] [async] Started save checkpoint @ gs://bucket/run/checkpoints/{step}.",
    "Scheduling D2H of 39 prioritized jax.Array.",
    "[process=0] [async] Finished blocking save in 1.25 seconds. Continuing save @ gs://bucket/run/checkpoints/{step}.",
    "[process=0][thread=async_save] Finished saving checkpoint (finalized tmp dir) to `gs://bucket/run/checkpoints/{step}`.",
    "[process=0][thread=async_save] Background save thread done. Time taken: 46.700434s.",
)  # fmt: skip
FACTS = (
    "System Information: Jax Version: 0.9.2",
    "System Information: Jax Backend: PJRT C API\nTFRT TPU v6 lite\nBuilt on Mar 4 2026 11:32:08 (1772652728) cl/87",
    "Num_devices: 32, shape (1, 1, 1, 32)\nfsdp: 32",
    " params/params/decoder/logits_dense/kernel\n    Shape:     float32[2048,32000]\n"
    "    Logical:   P('embed_vocab', 'vocab')\n    Physical:  ('fsdp', None)\n",
    "Total memory size: 1.5 GB, Output size: 0.4 GB, Temp size: 1.1 GB, Argument size: 0.4 GB, Host temp size: 0.0 GB.",
    "number parameters: 1.104 billion",
    "\nMemstats: After params initialized:",
    "\tUsing (GB) 0.43 / 31.25 (1.376000%) on TPU_0(process=0,(0,0,0,0))",
    "\tMemstats unavailable, error: the cpu backend reports none",
    "Config param mesh_axes: ['data', 'fsdp']",
    "Config param empty_one: ",
    "Completed eval after train step 5, loss=7.125, perplexity=1242.648, total_weights=8192",
    "To see full metrics 'tensorboard --logdir=gs://bucket/run/tensorboard/'",
    "Per train step:\n Total TFLOPs: 13.59 \n split as 93.93% learnable weight flops and 6.07% attention flops",
)


@st.composite
def records(draw: st.DrawFn, logs: Any) -> list[str]:
    """The records of a log, each with its prefix; a record may span lines."""
    found = [logs.line(text, source="max_utils.py:273") for text in FACTS if draw(st.booleans())]
    step = 0
    for second in range(draw(st.integers(0, 12))):
        if draw(st.booleans()):
            seconds, loss = draw(st.integers(1, 30_000)) / 1000, draw(st.integers(0, 20_000)) / 1000
            found.append(logs.line(logs.step_text(step, seconds=seconds, loss=loss), second=second))
            step += draw(st.sampled_from([1, 1, 1, 2, -1])) if step else 1
        if draw(st.integers(0, 4)) == 0:
            part = draw(st.integers(1, len(SAVE)))
            found += [logs.line(text.format(step=step), second=second) for text in SAVE[:part]]
    if draw(st.booleans()):
        name = draw(st.sampled_from(["NotImplementedError", "jax.errors.JaxRuntimeError", "KeyboardInterrupt"]))
        found.append(
            TRACEBACK.format(name=name, message=draw(st.sampled_from(["no NNX yet.", "RESOURCE_EXHAUSTED: x"])))
        )
    return found


def content(run: RunReading) -> dict[str, Any]:
    """A reading without the offsets of its values, which differ."""
    places = {"line", "offset", "source", "committed_line", "steps", "span"}

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: strip(item) for key, item in value.items() if key not in places}
        return [strip(item) for item in value] if isinstance(value, list | tuple) else value

    stripped = strip(run.model_dump(exclude={"steps"}))
    assert isinstance(stripped, dict)
    return stripped


@pytest.mark.flows
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_lost_line_breaks_lose_nothing(data: st.DataObject, logs: Any) -> None:
    code = data.draw(st.sampled_from([0, 1]))
    broken = logs.framed(*data.draw(records(logs)), code=code)
    expected = scrape_text(broken, name="x").runs[0]
    for text in (b" ".join(broken.split()), broken.replace(b"\n", b" "), broken.replace(b"\n", b"\r\n")):
        run = scrape_text(text, name="x").runs[0]
        assert content(run) == content(expected)
        assert_frame_equal(run.steps.drop("line", "offset"), expected.steps.drop("line", "offset"))


def test_offsets_refer_to_the_same_text_in_every_wrapping(logs: Any) -> None:
    broken = logs.framed(*logs.steps(300))
    for text in (broken, broken.replace(b"\n", b" "), broken.replace(b"\n", b"\r\n")):
        steps = scrape_text(text, name="x").runs[0].steps
        assert steps.height == 300
        for step, offset in steps.select("step", "offset").iter_rows():
            assert text[offset:].startswith(b"completed step: %d," % step)


def test_colours_and_progress_bars_are_not_part_of_a_number(logs: Any) -> None:
    coloured = [f"\x1b[32m{line}\x1b[0m" for line in logs.steps(300)]
    bars = [f"compiling:  {n}%|##\rcompiling: {n + 1}%|###\r{line}\r" for n, line in enumerate(logs.steps(300))]
    for lines in (coloured, bars):
        run = scrape_text(logs.framed(*lines), name="x").runs[0]
        assert run.steps["loss"].to_list() == [float(f"{9 - step / 1000:.3f}") for step in range(300)]
        assert run.coverage.complete


def test_prefixes_of_kubectl(logs: Any) -> None:
    lines = [f"[pod/run-slice-job-0-0/jax-tpu] {line}" for line in logs.steps(300)]
    run = scrape_text(logs.framed(*lines), name="x").runs[0]
    assert run.steps["step"].to_list() == list(range(300))
    assert run.steps["time"][0] == "2026-04-18T00:00:00.000000"
    assert (run.coverage.complete, run.coverage.glued_lines) == (True, 0)


def test_glued_lines_are_read_and_counted(logs: Any) -> None:
    lines = logs.steps(6)
    text = logs.framed(lines[0], lines[1] + lines[2], lines[3], lines[4] + logs.line("hello", 5), lines[5])
    run = scrape_text(text, name="x").runs[0]
    assert run.steps["step"].to_list() == list(range(6))
    assert run.coverage.glued_lines == 2
    assert run.coverage.complete
