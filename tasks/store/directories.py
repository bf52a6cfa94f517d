"""Turns the folder of a run or of a comparison into the paths in it, and writes and reads the records there."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from tasks.records import ComparisonRecord, RunHandle, RunPlan, RunRecord
from tasks.store.atomic import StoreError, write_atomically
from tasks.store.disk import explain_full
from tasks.store.documents import (
    load_json,
    model_from_json,
    model_to_json,
    read_document,
    run_record_from_json,
    run_record_to_json,
)
from tasks.store.mirror import Mirror
from tasks.store.names import check_name
from tasks.store.seals import find_changed, write_seal

MOST_BYTES = 1_000_000_000  # of a run's metrics; a step has 300 bytes
_HANDLE: TypeAdapter[RunHandle] = TypeAdapter(RunHandle)


@dataclass(frozen=True)
class RunDirectory:
    """One run's folder, `<out>/runs/<run_name>`. Making the object touches no file; every write is atomic."""

    path: Path
    mirror: Mirror | None = None  # of a store in a bucket

    @property
    def _name(self) -> str:
        return f"runs/{self.path.name}"

    @property
    def run_name(self) -> str:
        return self.path.name

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    @property
    def config(self) -> Path:
        return self.path / "config.yml"

    @property
    def handle(self) -> Path:
        return self.path / "handle.json"

    @property
    def log(self) -> Path:
        return self.path / "log.txt"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def program(self) -> Path:
        return self.path / "program.json"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def checkpoints_of(self, plan: RunPlan) -> Path | None:
        """Where the run of this plan saves its checkpoints; None if it saves none that can be verified."""
        return None if plan.files.checkpoints is None else self.path / plan.files.checkpoints

    @property
    def manifests(self) -> Path:
        return self.path / "manifests"

    @property
    def record(self) -> Path:
        return self.path / "record.json"

    def create(self) -> "RunDirectory":
        """Makes the folder; StoreError if that is not possible, or a link would lead what is written elsewhere."""
        links = [path for path in (self.path, self.checkpoints, self.manifests) if path.is_symlink()]
        if links:
            raise StoreError(f"{links[0]}: is a link to another place: remove it, or choose another --out")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            full = explain_full(self.path, error)
            raise StoreError(
                full or f"{self.path}: cannot be made ({error.strerror or error}); choose another --out"
            ) from error
        return self

    def claim(
        self,
        flow_runs: tuple[str, ...] = (),
        *,
        is_over: Callable[[tuple[str, ...]], bool] | None = None,
        checkpoints: bool = True,
    ) -> None:
        """Where the store is a bucket: take the run for these flow runs, with what another machine has left of it.

        `is_over` says whether another machine's flow runs have ended; `checkpoints`: they are wanted on this machine.
        Raises TakenError if another machine works on it.
        """
        if self.mirror is not None:
            self.mirror.claim(self._name, flow_runs, is_over=is_over, checkpoints=checkpoints)

    def check_claim(self) -> None:
        """Raises StoreError if another machine has taken the run over."""
        if self.mirror is not None:
            self.mirror.claims.check(self._name)

    def write_plan(self, plan: RunPlan) -> Path:
        return write_atomically(self.plan, model_to_json(plan))

    def read_plan(self) -> RunPlan | None:
        """The plan, or None if none was written; StoreError if the file is damaged."""
        return read_document(self.plan, model_from_json(RunPlan))

    def write_config(self, text: str) -> Path:
        return write_atomically(self.config, text)

    def write_handle(self, handle: RunHandle) -> Path:
        """Written before the job begins, and known to every machine then: StoreError if it is another's by now."""
        self.check_claim()
        written = write_atomically(self.handle, model_to_json(handle))
        if self.mirror is not None:
            self.mirror.push_begun(self._name)
        return written

    def read_handle(self) -> RunHandle | None:
        """The handle, or None if the run was never launched; StoreError if the file is damaged."""
        if self.mirror is not None:
            self.mirror.match(self.handle)
        return read_document(self.handle, model_from_json(_HANDLE))

    def read_program(self) -> dict[str, Any] | None:
        """The trainer's own proof, or None if it wrote none; StoreError if the file is damaged."""
        return read_document(self.program, load_json)

    def write_record(self, record: RunRecord) -> Path:
        """The last thing written of a run: from here on it counts as done and is not run again.

        In a bucket it replaces only the record that was there when the plan was written: StoreError otherwise.
        """
        text = run_record_to_json(record)
        if self.mirror is None:
            written = write_atomically(self.record, text)
            write_seal(self.path, (self.record, self.log, self.metrics, self.program))
            return written
        self.mirror.record(self._name, text.encode())
        written = write_atomically(self.record, text)
        self.mirror.claims.give_back(self._name)
        return written

    def check_files(self) -> None:
        """Raises StoreError for what a run may leave that cannot be read to its end: a pipe, a device, or a file that
        describes the run and is far too large for one."""
        for path in (self.log, self.metrics, self.program):
            if path.exists() and not path.is_file():
                raise StoreError(f"{path}: is no regular file, which the run's trainer put there; remove {self.path}")
        for path in (self.metrics, self.program):
            if path.exists() and (size := path.stat().st_size) > MOST_BYTES:
                raise StoreError(
                    f"{path}: {size / 1e9:,.1f} GB, at most {MOST_BYTES / 1e9:g} GB are read; remove {self.path}"
                )

    def find_changed(self) -> list[str]:
        """The files that were sealed with the record and hold something else by now, as after another run's hand."""
        return [] if self.mirror is not None else find_changed(self.path)

    def put_aside(self) -> Path:
        """Move everything in the folder but locks below it, into `changed-1` or the next such name, which is returned:
        the run begins anew."""
        aside = next(path for n in count(1) if not (path := self.path / f"changed-{n}").exists())
        aside.mkdir()
        for path in self.path.iterdir():
            if not path.name.startswith((".", "changed-")):
                path.rename(aside / path.name)
        return aside

    def read_record(self, *, listed: bool = False) -> RunRecord | None:
        """What the run did, bit for bit as it was written; None if it is not over; StoreError if damaged.

        Its log is the one in this folder, wherever the store was when it was written and whatever a hand has put there.
        `listed`: the working copy has just been made what the bucket is, so the bucket need not be asked.
        """
        if self.mirror is not None and not listed:
            self.mirror.match(self.record)
        record = read_document(self.record, run_record_from_json)
        return record and record.model_copy(update={"log": self.log_address})

    @property
    def log_address(self) -> str:
        """What people, and records, call the log: a path, or its address in the bucket."""
        return self.mirror.files.url(f"{self._name}/{self.log.name}") if self.mirror else str(self.log)

    def bring_log(self) -> Path:
        """The log on this machine, brought here from the bucket if it has to be; it need not exist."""
        return self.bring(self.log.name)

    def bring(self, name: str) -> Path:
        """A file of the run on this machine, in the same way; StoreError if `name` is not a plain file name."""
        if self.mirror is not None:
            self.mirror.refresh(f"{self._name}/{check_name(name, 'file')}")
        return self.path / check_name(name, "file")

    def bring_checkpoints(self) -> None:
        """Bring what another run needs to go on from this one: its checkpoints, metrics and program."""
        if self.mirror is not None:
            self.mirror.fetch_folder(self._name, without="")


@dataclass(frozen=True)
class ComparisonDirectory:
    """One comparison's folder, `<out>/comparisons/<comparison>/<case>/<id>`."""

    path: Path
    mirror: Mirror | None = None

    @property
    def comparison(self) -> Path:
        return self.path / "comparison.json"

    @property
    def page(self) -> Path:
        return self.path / "index.html"

    def file(self, name: str) -> Path:
        """The path of any further file of the page; StoreError if `name` is not a plain file name."""
        return self.path / check_name(name, "file")

    def write_comparison(self, record: ComparisonRecord) -> Path:
        return write_atomically(self.comparison, model_to_json(record))

    def read_comparison(self, *, listed: bool = False) -> ComparisonRecord | None:
        """The comparison, or None if none was written; StoreError if the file is damaged. `listed`: as for runs."""
        if self.mirror is not None and not listed:
            self.mirror.match(self.comparison)
        return read_document(self.comparison, model_from_json(ComparisonRecord))

    def write_file(self, name: str, text: str) -> Path:
        return write_atomically(self.file(name), text)
