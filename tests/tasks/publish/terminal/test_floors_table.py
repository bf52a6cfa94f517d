"""The table after a comparison of several cases: floors with reasons, and cases that were not run."""

from rich.console import Console

from tasks.publish.terminal.floors_table import render_floors
from tasks.records.compared_case import ComparisonRecord, Floor


def show(records: list[ComparisonRecord], left_out: dict[str, str]) -> str:
    console = Console(width=200, force_terminal=False)
    with console.capture() as captured:
        console.print(render_floors(records, left_out))
    return captured.get()


def record_of(case: str, *holds: bool | None) -> ComparisonRecord:
    names = ("same program", "same bits", "same checkpoint")
    floors = tuple(
        Floor(name=name, holds=held, evidence=f"{case} says") for name, held in zip(names, holds, strict=False)
    )
    return ComparisonRecord.model_construct(case=case, floors=floors)


def test_a_row_for_every_case_with_its_failed_floors() -> None:
    records = [record_of("01_base", True, True, True), record_of("03_dropout", True, False, None)]
    lines = show(records, {"12_pipeline": "needs 8 devices, cpu has 1"}).splitlines()
    (base,) = [line for line in lines if "01_base" in line]
    (dropout,) = [line for line in lines if "03_dropout" in line]
    (pipeline,) = [line for line in lines if "12_pipeline" in line]
    assert base.split() == ["01_base", "✓", "✓", "✓"]
    assert dropout.split()[:4] == ["03_dropout", "✓", "✗", "?"]
    assert dropout.index("same bits: 03_dropout says; ") < dropout.index("same checkpoint: 03_dropout says")
    assert pipeline.split()[1:4] == ["–"] * 3
    assert "not run: needs 8 devices, cpu has 1" in pipeline


def test_logs_given_to_ingest_have_no_floors() -> None:
    assert show([record_of("01_base")], {}).strip() == ""


def test_a_case_that_was_not_run_is_at_the_place_of_its_number() -> None:
    records = [record_of("13_eval", True, True, True), record_of("01_base", True, True, True)]
    lines = show(records, {"12_pipeline": "needs 8 devices, cpu has 1"}).splitlines()
    assert [line.split()[0] for line in lines if "_" in line] == ["01_base", "12_pipeline", "13_eval"]
