"""A judged run that starts with another run's state, and its kept program."""

import gzip
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.launch.job import with_recording
from tasks.launch.local import process_group
from tasks.observe.kept_program import keep_step_program
from tasks.observe.shared_start import read_start
from tasks.records.plan import RunPlan, SharedStart
from tests.wording.sentences import Wording

pytestmark = pytest.mark.long

type Planned = Callable[..., RunPlan]


def train(plan: RunPlan, *, recorded: bool = True) -> list[str]:
    """The losses of a run, as its log prints them."""
    log = Path(plan.directory) / "log.txt"
    log.unlink(missing_ok=True)
    handle = process_group.launch(with_recording(plan) if recorded else plan, log)
    while process_group.is_alive(handle):
        time.sleep(0.1)
    return re.findall(r"loss (\S+)", log.read_text())


def test_losses_equal_the_other_arms_in_every_digit(plan_of: Planned) -> None:
    first = plan_of("first")
    kept = first.replace(start=SharedStart())
    alone, other = train(first, recorded=False), train(plan_of("apart", words=("1",)))
    assert len(alone) == 3
    assert alone != other
    assert train(kept) == alone  # saving its start changes nothing
    taking = plan_of("second", words=("1",)).replace(start=SharedStart(taken_from="first"))
    assert train(taking) == alone  # weights, and the batch of every step
    report = read_start(taking)
    assert report is not None
    assert report.is_shared
    assert len(report.replaced) == 9


def test_a_different_shape_is_reported(plan_of: Planned) -> None:
    train(plan_of("first").replace(start=SharedStart()))
    wider = plan_of("second", ("(WIDTH, 4)", "(WIDTH, 5)"), ("x[:, :4]", "x[:, :5]"))
    taking = wider.replace(start=SharedStart(taken_from="first"))
    assert len(train(taking)) == 3  # it trains anyway
    report = read_start(taking)
    assert report is not None
    assert not report.is_shared
    assert report.kept["state['params']['head']"] == "shape (16, 5) here, (16, 4) there"


def test_without_a_stored_start_a_run_keeps_its_own(plan_of: Planned, wording: Wording) -> None:
    taking = plan_of("second").replace(start=SharedStart(taken_from="never ran"))
    assert train(taking) == train(plan_of("alone"), recorded=False)
    report = read_start(taking)
    assert report is not None
    assert not report.is_shared
    wording("reasons", report.reason)


def test_the_program_of_the_step_is_kept(plan_of: Planned) -> None:
    plan = plan_of("arm")
    train(plan)
    kept = keep_step_program(Path(plan.directory))
    assert kept is not None
    text = gzip.decompress(kept.read_bytes()).decode()
    assert "module @jit_train_step" in text
    assert "stablehlo.dot_general" in text
    assert "trainer.py" in text  # with its source lines
    assert keep_step_program(Path(plan.directory)) == kept  # at the second request it still exists


def test_pods_have_no_common_folder(plan_of: Planned, wording: Wording) -> None:
    plan = plan_of("second").replace(backend="xpk", start=SharedStart(taken_from="first"))
    assert "MAXVIEW_OBSERVE" not in with_recording(plan).environment
    report = read_start(plan)
    assert report is not None
    assert not report.is_shared
    wording("reasons", report.reason)
