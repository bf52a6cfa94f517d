"""The options that write comparisons for CI systems and experiment trackers."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from tasks.records.compared_case import ComparisonRecord


@dataclass(frozen=True, kw_only=True)
class Reports:
    """What to write beside the pages."""

    junit: Annotated[Path | None, Parameter(help="Write the judged rows as a JUnit report, one test per row.")] = None
    sarif: Annotated[
        Path | None, Parameter(help="Write what is not same as a SARIF log, at the lines of the candidate.")
    ] = None
    github: Annotated[
        bool,
        Parameter(help="In a GitHub workflow: annotate lines, and set `verdict` and `headline`.", negative=""),
    ] = False

    to: Annotated[
        tuple[Literal["wandb", "mlflow"], ...],
        Parameter(help="Write the verdict as a run into this tracker, with its own client.", negative=""),
    ] = ()

    def check(self) -> None:
        """Raise ValueError if a report's folder does not exist, or if a tracker's client is not installed."""
        for path in (self.junit, self.sarif):
            if path is not None and not path.absolute().parent.is_dir():
                raise ValueError(f"{path}: there is no folder {path.parent}; make it first")
        if self.to:
            from tasks.publish.ci.tracker_runs import check_clients

            check_clients(self.to)

    def write(self, records: "Sequence[ComparisonRecord]", pages: "Sequence[str]") -> None:
        """Write the reports of the comparisons, and print the annotations. pages: the addresses of their pages."""
        from tasks.publish.ci.junit import junit_report
        from tasks.publish.ci.sarif import sarif_log
        from tasks.publish.ci.workflow import step_outputs, workflow_commands
        from tasks.store.atomic import write_atomically

        if self.junit is not None:
            write_atomically(self.junit, junit_report(records))
        if self.sarif is not None:
            write_atomically(self.sarif, json.dumps(sarif_log(records), indent=1) + "\n")
        if self.github:
            print("\n".join(workflow_commands(records)))
            if outputs := os.environ.get("GITHUB_OUTPUT"):
                with Path(outputs).open("a", encoding="utf-8") as file:
                    file.writelines(f"{line}\n" for line in step_outputs(records))
        for tracker in self.to:
            from tasks.publish.ci.tracker_runs import write_verdicts

            for place in write_verdicts(tracker, records, pages):
                print(f"{tracker}: {place}", file=sys.stderr)
