"""Shows a `ConvergenceRecord` as text for a terminal."""

from tasks.records.convergence import ConvergenceRecord
from tasks.records.text import visible

SIGNS = {"same": "=", "improved": "+", "regressed": "-", "changed": "~", "unknown": "?", "not judged": " "}


def show_convergence(record: ConvergenceRecord) -> str:
    """Return the verdict, a line per judged figure, and the runs that leave the band."""
    sides = f"{len(record.reference)} reference seeds, {len(record.candidate)} of the candidate"
    lines = [f"{SIGNS[record.verdict]} {record.verdict.upper()}   convergence · {sides}", f"  {record.headline}", ""]
    for row in record.rows:
        values = "" if row.baseline is None else f"{row.baseline:.5g} → {row.candidate:.5g}  "
        lines.append(f"  {SIGNS[row.verdict]} {row.title:24} {values}{row.reason}")
    lines += [f"  ! {one.run}: {one.shape}: {one.text}" for one in record.oddities]
    lines += [f"  note: {note}" for note in record.notes]
    return "\n".join(visible(line) for line in lines)
