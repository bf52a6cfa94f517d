"""Renders the floors (levels of the equality proof) of several cases as one table."""

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tasks.publish.content.verdict_words import HOLDS, OUTCOMES
from tasks.records.compared_case import ComparisonRecord
from tasks.records.text import visible

FLOORS = ("same program", "same bits", "same checkpoint")


def render_floors(records: Sequence[ComparisonRecord], left_out: Mapping[str, str]) -> RenderableType:
    """Return the table; empty if no record has floors. left_out: case → reason why it was not run.

    The column "Why not" has the evidence of each floor that does not hold or was not decided, or the reason why the
    case was not run.
    """
    if not any(record.floors for record in records):
        return Group()
    table = Table(box=box.SIMPLE_HEAD, title="Floors, case by case", title_justify="left", pad_edge=False)
    table.add_column("Case", no_wrap=True)
    for name in FLOORS:
        table.add_column(name.removeprefix("same "), justify="center")
    table.add_column("Why not", overflow="fold")
    rows = {}
    for record in records:
        found = {floor.name: floor for floor in record.floors}
        signs = [Text(*OUTCOMES[HOLDS[found[name].holds]]) if name in found else Text("–") for name in FLOORS]
        why = "; ".join(f"{floor.name}: {floor.evidence}" for floor in record.floors if floor.holds is not True)
        rows[record.case] = [*signs, Text(visible(why))]
    for case, why in left_out.items():
        rows[case] = [*[Text("–")] * len(FLOORS), Text(f"not run: {visible(why)}")]
    for case in sorted(rows):  # in order of the numbers at the beginning of their names
        table.add_row(Text(visible(case)), *rows[case])
    return table
