"""The options that write comparisons for CI systems."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from tasks.records.compared_case import ComparisonRecord


@dataclass(frozen=True, kw_only=True)
class Reports:
    """Files to write beside the pages."""

    junit: Annotated[Path | None, Parameter(help="Write the judged rows as a JUnit report, one test per row.")] = None
    sarif: Annotated[
        Path | None, Parameter(help="Write what is not same as a SARIF log, at the lines of the candidate.")
    ] = None
    github: Annotated[
        bool,
        Parameter(help="In a GitHub workflow: annotate lines, and set `verdict` and `headline`.", negative=""),
    ] = False

    def check(self) -> None:
        """Raise ValueError if a report's folder does not exist."""
        for path in (self.junit, self.sarif):
            if path is not None and not path.absolute().parent.is_dir():
                raise ValueError(f"{path}: there is no folder {path.parent}; make it first")

    def write(self, records: "Sequence[ComparisonRecord]") -> None:
        """Write the reports of the comparisons, and print the annotations."""
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
