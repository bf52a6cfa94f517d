"""Shows a `ConvergenceRecord` as text for a terminal."""

import shutil
import textwrap

from tasks.records.convergence import ConvergenceRecord
from tasks.records.text import visible

NARROWEST = 60  # columns; in a narrower terminal lines are not shortened further
SIGNS = {"same": "=", "improved": "+", "regressed": "-", "changed": "~", "unknown": "?", "not judged": " "}


def show_convergence(record: ConvergenceRecord) -> str:
    """Return the verdict, a line per judged figure, and the runs that leave the band."""
    sides = f"{len(record.reference)} reference seeds, {len(record.candidate)} of the candidate"
    about = f"{record.subject} · " if record.subject else ""
    lines = [
        f"{SIGNS[record.verdict]} {record.verdict.upper()}   convergence · {about}{sides}",
        f"  {record.headline}",
        "",
    ]
    for row in record.rows:
        values = "" if row.baseline is None else f"{row.baseline:.5g} → {row.candidate:.5g}  "
        lines.append(f"  {SIGNS[row.verdict]} {row.title:24} {values}{row.reason}")
    lines += [f"  ! {one.run}: {one.shape}: {one.text}" for one in record.oddities]
    lines += [f"  note: {note}" for note in record.notes]
    width = max(shutil.get_terminal_size().columns, NARROWEST)
    return "\n".join(textwrap.fill(visible(line), width, subsequent_indent=" " * 6) for line in lines)
