"""Shows a running flow on a terminal: one line per run with its steps, loss, seconds per step and checkpoints."""

import time
from collections.abc import Sequence
from typing import Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from flows.cli.byte_progress import ReadLines
from tasks.launch.backend import LaunchedRun, Restarted
from tasks.launch.logs import LogLine
from tasks.publish.content.compared_code import describe_planned_code
from tasks.publish.content.page_address import PublishedPage
from tasks.publish.terminal.report import render_first_word
from tasks.records.checkpoint_proof import CheckpointProof
from tasks.records.compared_case import ComparisonRecord
from tasks.records.convergence import ConvergenceRecord
from tasks.records.log_reading import CheckpointCommitted, CheckpointStarted, RunEnded, StepCompleted
from tasks.records.plan import RunPlan
from tasks.records.text import escape_rich, visible
from tasks.services.events import (
    Compared,
    Comparing,
    Converged,
    Costing,
    Event,
    Explaining,
    Judged,
    Launched,
    Logged,
    Planned,
    Progressed,
    Replanned,
    Reused,
    Stopping,
    Troubled,
    Verified,
    Waits,
)

MIB = 2**20
MAX_STAGE_LENGTH = 60  # limit of characters of a compile's stage, which is truncated


class NoteColumn(ProgressColumn):
    """The column with the rows' notes. On a narrow terminal it is truncated, so that other columns stay complete."""

    def render(self, task: Task) -> Text:
        """Return the note on one line."""
        note = Text.from_markup(task.fields["note"], overflow="ellipsis")
        note.no_wrap = True
        return note


class LiveView:
    """A live view of the events of flows. Without a terminal, it prints lines, e.g. when a run starts, ends or dies."""

    def __init__(self, console: Console):
        self.console = console
        self.comparisons: list[tuple[ComparisonRecord, PublishedPage]] = []
        self.convergence: list[tuple[ConvergenceRecord, str]] = []
        self.plans: list[RunPlan] = []
        self._rows: dict[str, TaskID] = {}
        self._checkpoints: dict[str, dict[int, str]] = {}
        self._started: dict[str, float] = {}
        self._progress = Progress(
            TextColumn("{task.description:<24}", table_column=Column(no_wrap=True)),
            BarColumn(bar_width=6, table_column=Column(no_wrap=True)),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            NoteColumn(),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True, table_column=Column(no_wrap=True)),
            console=console,
            disable=not console.is_terminal,
        )
        self._waiting: TaskID | None = None
        self._print_read = ReadLines(console)

    def __enter__(self) -> Self:
        self._progress.start()
        self._waiting = self._progress.add_task("starting Prefect", total=None, note="")
        return self

    def __exit__(self, *_: object) -> None:
        for row in (self._waiting, *self._rows.values()):
            if row is not None:
                self._progress.stop_task(row)
        for row in self._rows.values():
            self._progress.update(row, visible=True)
        self._progress.stop()

    def show(self, event: Event) -> None:
        """Update the view for an event."""
        match event:
            case Costing(text):
                self._end_waiting()
                self.console.print(escape(text), soft_wrap=True, highlight=False)
            case Planned(plans):
                self._planned(plans)
            case Reused(plan):
                self._reused(plan)
            case Waits(plan, why):
                self._note(plan, "in use by another flow")
                self._print_without_terminal(why)
            case Launched(run):
                self._launched(run)
            case Logged(run, what):
                self._logged(run.plan, what)
            case Stopping(plan):
                self._note(plan, "stopping (it saves a checkpoint first)")
                self.console.print(f"stopping {escape(plan.run_name)} …", style="yellow", soft_wrap=True)
            case Verified(run, proofs):
                self._verified(run.plan, proofs)
            case Comparing(case, done, total):
                self._show_bytes(f"{case} checkpoints", "MiB of their values compared", done, total)
            case Replanned(plans, why):
                self._add_rows(plans, several=True)
                if why:
                    self.console.print(escape(why), soft_wrap=True)
            case Explaining(case, text):
                self.console.print(escape(f"{case}: {text}"), soft_wrap=True)
            case Progressed(case, text):
                self._progressed(case, text)
            case Troubled(text):
                self.console.print(escape_rich(text), style="red", soft_wrap=True)
            case Judged(record, what_follows):
                for line in render_first_word(record, self.console.width):
                    self.console.print(line, soft_wrap=True)
                self.console.print(escape(f"  {what_follows}"), style="dim", soft_wrap=True)
            case Converged(converged, place):
                self.convergence.append((converged, place))
            case Compared(record, page, _):
                self.comparisons.append((record, page))

    def show_read(self, name: str, done: int, size: int) -> None:
        """Show how many bytes of a long file have been read: `done` of `size`."""
        self._end_waiting()
        if self.console.is_terminal:
            self._show_bytes(f"reading {visible(name)}", "MiB", done, size)
        else:
            self._print_read(f"reading {name}", done, size)

    def _end_waiting(self) -> None:
        if self._waiting is not None:
            self._progress.remove_task(self._waiting)
            self._waiting = None

    def _planned(self, plans: Sequence[RunPlan]) -> None:
        self._end_waiting()
        for line in describe_planned_code(plans) if not self.plans else ():
            self.console.print(escape(line), soft_wrap=True, highlight=False)
        self.plans += plans
        self._add_rows(plans, several=len({plan.repeat for plan in plans}) > 1)

    def _add_rows(self, plans: Sequence[RunPlan], *, several: bool) -> None:
        for plan in plans:
            name = f"{plan.case} {plan.arm}{plan.work.suffix}" + (f" #{plan.repeat + 1}" if several else "")
            steps = plan.work.count(plan)
            self._rows[plan.run_name] = self._progress.add_task(escape(name), total=steps, start=False, note="waiting")
            self._checkpoints[plan.run_name] = {}

    def _make_room(self) -> None:
        """Hide finished rows, oldest first, until the rest fits on the screen. `__exit__` shows all rows again."""
        shown = [task for task in self._progress.tasks if task.visible]
        over = [task for task in shown if task.stop_time is not None or (not task.started and task.remaining == 0)]
        for task in over[: max(0, len(shown) - self.console.height + 1)]:
            self._progress.update(task.id, visible=False)

    def _note(self, plan: RunPlan, text: str, **changes: Any) -> None:
        marks = "".join(f" ckpt {step}{mark}" for step, mark in sorted(self._checkpoints[plan.run_name].items()))
        self._progress.update(self._rows[plan.run_name], note=escape_rich(text + marks), **changes)

    def _print_without_terminal(self, text: str) -> None:
        """Print a line, unless a terminal shows the rows of the view."""
        if not self.console.is_terminal:
            self.console.print(escape_rich(text), soft_wrap=True)

    def _reused(self, plan: RunPlan) -> None:
        self._note(plan, plan.work.again, completed=plan.work.count(plan))
        self._make_room()
        self._print_without_terminal(f"{plan.run_name}: {plan.work.again}")

    def _launched(self, run: LaunchedRun) -> None:
        plan = run.plan
        self._started[plan.run_name] = time.monotonic()
        self._progress.start_task(self._rows[plan.run_name])
        self._make_room()
        self._note(plan, "starting")
        self._print_without_terminal(f"{plan.run_name}: running, log {run.handle.log}")

    def _logged(self, plan: RunPlan, what: Any) -> None:
        marks = self._checkpoints[plan.run_name]
        match what:
            case LogLine():
                self._note(plan, what.text[:MAX_STAGE_LENGTH])
            case StepCompleted():
                loss = "" if what.loss is None else f"loss {what.loss:.3f} "
                rate = "" if what.seconds is None else f"{what.seconds:.3f} s/step"
                self._note(plan, f"{loss}{rate}", completed=what.step + 1)
            case CheckpointStarted():
                marks[what.step] = "…"
                self._note(plan, "saving")
            case CheckpointCommitted():
                marks[what.step] = " committed"
                self._note(plan, "verifying")
            case Restarted():
                self._note(plan, f"started again: {what.cause.type}")
                self._print_without_terminal(
                    f"{plan.run_name}: attempt {what.attempt}: {what.cause.type}: {what.cause.message}"
                )
            case RunEnded():
                self._ended(plan, what)

    def _ended(self, plan: RunPlan, end: RunEnded) -> None:
        if end.error is not None:
            self._note(plan, f"died: {end.error.type}")
            self._print_without_terminal(f"{plan.run_name}: died: {end.error.type}: {end.error.message}")
        if end.exit_code:
            self._note(plan, f"ended with exit code {end.exit_code}")
            self._progress.stop_task(self._rows[plan.run_name])
        if end == RunEnded():
            self._note(plan, "gone: its processes were killed")
            self._print_without_terminal(f"{plan.run_name}: its processes were killed")

    def _show_bytes(self, name: str, note: str, done: int, total: int) -> None:
        if name not in self._rows:
            self._rows[name] = self._progress.add_task(escape(name), note=note)
        self._progress.update(self._rows[name], completed=done // MIB, total=total // MIB)
        if done >= total:
            self._progress.stop_task(self._rows[name])

    def _progressed(self, case: str, text: str) -> None:
        name = f"{case} experiment"
        if name not in self._rows:
            self._rows[name] = self._progress.add_task(escape(name), total=None, note="")
        self._progress.update(self._rows[name], note=escape_rich(text))
        self._print_without_terminal(f"{case}: {text}")

    def _verified(self, plan: RunPlan, proofs: Sequence[CheckpointProof]) -> None:
        for proof in proofs:
            if proof.step is not None:
                self._checkpoints[plan.run_name][proof.step] = "✓" if proof.is_sound else "✗"
        took = time.monotonic() - self._started.get(plan.run_name, time.monotonic())
        if not plan.work.has_steps:
            self._progress.update(self._rows[plan.run_name], completed=1)
            self._progress.stop_task(self._rows[plan.run_name])
            self._print_without_terminal(f"{plan.run_name}: ended after {took:.0f} s")
            return
        self._note(plan, "done")
        self._progress.stop_task(self._rows[plan.run_name])
        good = sum(proof.is_sound for proof in proofs)
        checked = f", {good} of {len(proofs)} checkpoints verified" if plan.files.checkpoints else ""
        self._print_without_terminal(f"{plan.run_name}: ended after {took:.0f} s{checked}")
