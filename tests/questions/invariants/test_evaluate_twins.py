"""A real pair of our trainer: both sides are recorded in one process, and agree; a planted fault is found."""

from pathlib import Path
from threading import Event
from typing import Any

import pytest

from maxview_probe.evaluate.recorded_step import RecordedStep
from questions.invariants import evaluate_twins as evaluating
from questions.invariants.evaluate_twins import NO_KERNEL, compare_recorded, evaluate_twins, sides_of_pair
from questions.invariants.invariants_options import InvariantsOptions
from questions.invariants.twin_files import load_twins
from questions.invariants.twin_plans import plan_twins


def test_the_kernel_of_another_device_is_no_fault_of_a_version() -> None:
    refused = "the trainer failed before its training step: NotImplementedError: Not supported on cpu."
    assert NO_KERNEL.search(refused)
    assert not NO_KERNEL.search("the trainer failed before its training step: ModuleNotFoundError: tensorflow")


def test_an_interrupt_ends_the_recordings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ended = []

    def record(_sides: Any, _folder: Path, _name: str, interrupt: Event) -> dict[Path, Any]:
        ended.append(interrupt.wait(30))
        return {}

    def press(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    pairs, _ = plan_twins(InvariantsOptions(cases=("01_base", "07_mla", "06_moe")), load_twins(("scan",)), tmp_path)
    monkeypatch.setattr(evaluating, "record_sides", record)
    monkeypatch.setattr(evaluating, "wait", press)
    with pytest.raises(KeyboardInterrupt):
        list(evaluate_twins(pairs, tmp_path))
    assert 1 <= len(ended) <= evaluating.LANES  # the third does not begin
    assert all(ended)


@pytest.mark.long
def test_a_pair_is_recorded_once_and_a_fault_in_it_is_found(tmp_path: Path) -> None:
    short = ("max_target_length=16",)
    (pair,), _ = plan_twins(InvariantsOptions(overrides=short), load_twins(("mesh-fsdp",)), tmp_path)
    (same,) = evaluate_twins([pair], tmp_path)
    assert (same.answer, same.results > 30) == ("same", True), same.sentence
    sides = sides_of_pair(pair, tmp_path)
    left, right = (RecordedStep(side.folder) for side in sides)
    assert (left.devices, right.devices) == (1, 8)
    assert all(side.is_recorded for side in sides)
    state = {n for n, slot in enumerate(left.inputs) if slot.role in ("parameter", "optimizer")}
    assert left.fed.keys() >= state  # found without running the step
    assert {left.inputs[n].role for n in left.batch(1)} == {"data"}
    (faulty,) = compare_recorded([(pair, sides)], tmp_path, ("gradient scaled",))
    assert faulty.answer == "another"
