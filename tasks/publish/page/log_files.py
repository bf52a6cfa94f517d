"""Writes the logs of both arms into the page's folder, and finds the anchors of their lines.

An arm is one of the two compared versions.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from tasks.publish.content.checkpoints import list_checkpoints
from tasks.publish.content.verdict_words import sides_of
from tasks.publish.page.logview import Kind, LogView, write_log
from tasks.records.compared_case import ArmSummary, ComparisonRecord, Evidence
from tasks.records.compiled import LOWERED, OPTIMISED
from tasks.records.run_end import LogError
from tasks.records.shared_fields import Source
from tasks.records.text import visible

PROGRAMS = {OPTIMISED: "the optimised program", LOWERED: "the lowered program"}

type Lines = Iterable[tuple[int, str]]  # (byte offset, text) of each line


class Logs:
    """The logs and compiled programs of both sides on the page. The constructor writes them to `logs/` in `folder`."""

    def __init__(self, record: ComparisonRecord, log_lines: Mapping[str, Lines], folder: Path):
        self._arms = {arm.name: arm for arm in (record.baseline, record.candidate)}
        self._views: dict[tuple[str, str], LogView] = {}
        self.by_side: dict[str, list[LogView]] = {"baseline": [], "candidate": []}
        for side, arm in sides_of(record):
            for number, name in enumerate(arm.runs):
                lines = log_lines.get(f"{arm.name}/{name}", log_lines.get(arm.name) if number == 0 else None)
                error = arm.cause_of_death
                if lines is None:
                    continue
                self._views[arm.name, name] = view = write_log(
                    lines,
                    list_places(record, arm, run=number),
                    folder,
                    title=visible(arm.label if name in arm.label else f"{arm.label} · {name}"),
                    prefix=side if number == 0 else f"{side}-{number + 1}",
                    death=error.offset if error is not None and error.run == number else None,
                )
                self.by_side[side].append(view)
            for name in arm.programs:
                self._views[arm.name, name] = view = write_log(
                    log_lines.get(f"{arm.name}/{name}", ()),
                    list_places(record, arm, file=name),
                    folder,
                    title=visible(f"{arm.label} · {PROGRAMS.get(name, name)}"),
                    prefix=f"{side}-{name.partition('.')[0]}",
                )
                self.by_side[side].append(view)

    @property
    def views(self) -> list[LogView]:
        return [view for side in self.by_side.values() for view in side]

    @property
    def have_lines_of_both(self) -> bool:
        """Whether each side has a log with lines."""
        return all(any(view.lines for view in views) for views in self.by_side.values())

    def unique(self, side: str) -> list[tuple[str, int, Kind]]:
        """Return (anchor, line number, kind) of the first line of each `Kind` that the logs of the other side lack."""
        other = {kind for name, views in self.by_side.items() if name != side for view in views for kind in view.kinds}
        found: dict[str, tuple[str, int, Kind]] = {}
        for view in self.by_side[side]:
            for text, kind in view.kinds.items():
                if text not in other and text not in found:
                    number = kind.place + view.lines_before
                    found[text] = (f"{view.prefix}-L{number}", number, kind)
        return list(found.values())

    def view(self, arm: ArmSummary, run: int) -> LogView | None:
        """Return the log of the arm's run number `run`, from 0; None if the page does not have that log."""
        return self._views.get((arm.name, arm.runs[run])) if run < len(arm.runs) else None

    def anchor(self, arm: ArmSummary, source: Source | LogError | None) -> str | None:
        """Return the anchor of the line of a source or of a cause of death; None if the page has no such line."""
        if source is None or not source.line:
            return None
        file = source.file if isinstance(source, Source) else ""
        view = self._views.get((arm.name, file)) if file else self.view(arm, source.run)
        return view.anchor(source.offset) if view is not None else None

    def evidence_anchor(self, evidence: Evidence) -> str | None:
        """Return the anchor of the line with the evidence for a finding; None if the page has no such line."""
        arm = self._arms.get(evidence.arm)
        return self.anchor(arm, evidence.source) if arm is not None else None

    def before_death(self, arm: ArmSummary) -> list[str]:
        """Return the last lines up to and including the arm's cause of death; empty without a cause or a log."""
        error = arm.cause_of_death
        view = None if error is None else self.view(arm, error.run)
        return [] if view is None else view.before_death


def list_places(
    record: ComparisonRecord, arm: ArmSummary, *, run: int = 0, file: str = ""
) -> dict[Source, tuple[str, ...]]:
    """Return source → names of the values and events there, for the lines that the page refers to: of a run or program.

    A curve adds only its first and its last line, without names. file: name of a program's text.
    """
    places: dict[Source, tuple[str, ...]] = {}

    def add(source: Source | None, *names: str) -> None:
        if source is not None and source.line and (source.run, source.file) == (run, file):
            places[source] = places.get(source, ()) + tuple(visible(name) for name in names)

    for difference in record.programs.differences if record.programs else ():
        add(difference.baseline_source if arm is record.baseline else difference.candidate_source, difference.what)
    stalls = {(stall.step, stall.offset) for stall in record.stalls.get(arm.name, ())}
    own = set()  # (step, offset) of this run's stalls; `stalls` contains those of all runs of the arm
    for curve in record.curves:
        if not file and (curve.arm, curve.run_name) == (arm.name, arm.runs[run]) and curve.offsets:
            own |= stalls.intersection(zip(curve.steps, curve.offsets, strict=True))
            for i in (0, -1):  # two lines suffice to find `LogView.lines_before`
                add(Source(line=curve.lines[i], offset=curve.offsets[i], run=run))
    for stall in record.stalls.get(arm.name, ()):
        if (stall.step, stall.offset) in own:
            add(Source(line=stall.line, offset=stall.offset, run=stall.run), f"stall: {stall.cause}")
    for line in list_checkpoints(arm):
        add(line.source, f"checkpoint {line.step}")
    if (death := arm.cause_of_death) is not None:
        add(Source(line=death.line, offset=death.offset, run=death.run), "cause of death")
    for row in record.rows:
        add(row.baseline_source if arm is record.baseline else row.candidate_source, row.title)
    for finding in record.findings:
        for evidence in finding.evidence:
            if evidence.arm == arm.name:
                add(evidence.source, finding.kind)
    return places
