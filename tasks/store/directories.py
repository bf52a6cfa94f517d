"""Writes and reads the files in the folder of a run or of a comparison."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from tasks.records.checkpoint_proof import CrossRestore
from tasks.records.compared_case import ComparisonRecord
from tasks.records.plan import RunHandle, RunPlan
from tasks.records.restored import Restored
from tasks.records.run import RunRecord
from tasks.store.atomic import StoreError, explain_full, explain_little, write_atomically
from tasks.store.documents import load_json, model_from_json, read_document
from tasks.store.json_records import model_to_json, run_record_from_json, run_record_to_json
from tasks.store.names import check_name
from tasks.store.place import Folder
from tasks.store.seals import remove_seal

MAX_BYTES = 1_000_000_000  # limit of metrics.jsonl and of program.json; a step of metrics needs 300 bytes
LOG_BYTES = 16 << 10  # with less free disk space, a run cannot begin its log
LOCAL = Folder()


class _Inside:
    """A class attribute that returns the path of the file or folder `name` in the object's folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, directory: "RunDirectory | ComparisonDirectory", _: type) -> Path:
        return directory.path / self._name


@dataclass(frozen=True)
class RunDirectory:
    """One run's folder, `<out>/runs/<run_name>`. Creating the object touches no file. Methods write atomically."""

    path: Path
    place: Folder = LOCAL

    plan = _Inside("plan.json")
    config = _Inside("config.yml")
    handle = _Inside("handle.json")
    log = _Inside("log.txt")
    metrics = _Inside("metrics.jsonl")
    program = _Inside("program.json")
    checkpoints = _Inside("checkpoints")
    manifests = _Inside("manifests")
    record = _Inside("record.json")
    crossing = _Inside("cross_restore.json")
    restored = _Inside("restored.json")

    @property
    def _name(self) -> str:
        return f"runs/{self.path.name}"

    @property
    def run_name(self) -> str:
        return self.path.name

    def checkpoints_of(self, plan: RunPlan) -> Path | None:
        """Return the folder of the run's checkpoints; None if the run saves none in Orbax's format."""
        return None if plan.files.checkpoints is None else self.path / plan.files.checkpoints

    def create(self) -> "RunDirectory":
        """Create the folder; return this object. Raises StoreError on failure, or if a link would redirect writes."""
        links = [path for path in (self.path, self.checkpoints, self.manifests) if path.is_symlink()]
        if links:
            raise StoreError(f"{links[0]}: is a link to another place: remove it, or choose another --out")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            full = explain_full(self.path, error)
            raise StoreError(
                full or f"{self.path}: cannot be created ({error.strerror or error}); choose another --out"
            ) from error
        return self

    def claim(
        self,
        flow_runs: tuple[str, ...] = (),
        *,
        is_over: Callable[[tuple[str, ...]], bool] | None = None,
        checkpoints: bool = True,
    ) -> None:
        """Claim the run for these flow runs, and fetch the files of another machine's earlier attempt.

        Does nothing for a local store. Raises TakenError if another machine has claimed the run, unless `is_over`
        returns True for the ids of its flow runs. checkpoints: whether to fetch checkpoints too.
        """
        self.place.claim(self._name, flow_runs, is_over=is_over, checkpoints=checkpoints)

    def check_claim(self) -> None:
        """Raise StoreError if another machine has taken over the run."""
        self.place.check_claim(self._name)

    def write_plan(self, plan: RunPlan) -> Path:
        return write_atomically(self.plan, model_to_json(plan))

    def read_plan(self) -> RunPlan | None:
        """Return the plan; None without one. Raises StoreError if the file is damaged."""
        return read_document(self.plan, model_from_json(RunPlan))

    def write_config(self, plan: RunPlan) -> Path:
        return write_atomically(self.config, config_text(plan))

    def write_handle(self, handle: RunHandle) -> Path:
        """Write the handle of a job that is about to start; in a bucket, upload plan, config and earlier logs too.

        Raises StoreError if another machine has taken over the run.
        """
        self.check_claim()
        written = write_atomically(self.handle, model_to_json(handle))
        self.place.push_begun(self._name)
        return written

    def read_handle(self, kind: TypeAdapter[RunHandle]) -> RunHandle | None:
        """Return the handle; None if there is none. Raises StoreError if the file is damaged.

        kind: parses the handle as its backend's own (`read_handle` of tasks/launch/known_backends.py).
        """
        self.place.match(self.handle)
        return read_document(self.handle, model_from_json(kind))

    def read_program(self) -> dict[str, Any] | None:
        """Return the trainer's program.json; None without one. Raises StoreError if the file is damaged."""
        return read_document(self.program, load_json)

    def write_crossing(self, proof: CrossRestore) -> Path:
        """Write the result of a restore of the other arm's checkpoint, which becomes a part of the run's record."""
        return write_atomically(self.crossing, proof.model_dump_json(indent=1) + "\n")

    def read_crossing(self) -> CrossRestore | None:
        """Return the proof that `write_crossing` wrote; None if it wrote none."""
        if not self.crossing.is_file():
            return None
        return CrossRestore.model_validate_json(self.crossing.read_text(encoding="utf-8"))

    def write_restored(self, found: Restored) -> Path:
        """Write what the run's program restores of what it saves, which becomes a part of the run's record."""
        return write_atomically(self.restored, found.model_dump_json(indent=1) + "\n")

    def read_restored(self) -> Restored | None:
        """Return the result that `write_restored` wrote; None if it wrote none."""
        if not self.restored.is_file():
            return None
        return Restored.model_validate_json(self.restored.read_text(encoding="utf-8"))

    def write_record(self, record: RunRecord) -> Path:
        """Write the record, as the last file of a run that has ended.

        In a bucket, uploads the run's folder and releases the claim; raises StoreError if the bucket's record is no
        longer the version that the claim names.
        """
        text = run_record_to_json(record)
        sealed = (self.record, self.log, self.metrics, self.program)
        return self.place.end_run(self._name, self.record, text, sealed)

    def check_files(self) -> None:
        """Raise StoreError if the log, metrics or program file must not be read.

        Refused are pipes, devices, folders, links out of the run's folder, metrics and programs above MAX_BYTES, and
        logs emptied by a full disk.
        """
        own = self.path.resolve()
        for path in (self.log, self.metrics, self.program):
            if path.exists() and not path.is_file():
                raise StoreError(f"{path}: is not a regular file, left by the run's trainer; remove {self.path}")
            if path.is_symlink() and own not in (target := path.resolve()).parents:
                outside = f"is a symbolic link to {target}, outside of the run's folder"
                raise StoreError(f"{path}: {outside}; remove {self.path}")
        is_empty = self.log.is_file() and not self.log.stat().st_size
        if is_empty and (full := explain_little(self.path, LOG_BYTES)):
            raise StoreError(full)
        for path in (self.metrics, self.program):
            if path.exists() and (size := path.stat().st_size) > MAX_BYTES:
                raise StoreError(
                    f"{path}: {size / 1e9:,.1f} GB, at most {MAX_BYTES / 1e9:g} GB are read; remove {self.path}"
                )

    def find_changed(self) -> list[str]:
        """Return which of record, log, metrics and program have changed since the run's end; none in a bucket."""
        return self.place.find_changed(self.path)

    def remove_seal(self) -> None:
        """Remove the seal (the digests for `find_changed`) of an unfinished run before the run is repeated."""
        remove_seal(self.path)

    def put_aside(self) -> Path:
        """Move the files into a new subfolder `changed-1`, `changed-2`, …, so that the run starts from scratch.

        Hidden files (locks) and the subfolders of earlier calls stay. Returns the subfolder.
        """
        aside = next(path for n in count(1) if not (path := self.path / f"changed-{n}").exists())
        aside.mkdir()
        for path in self.path.iterdir():
            if not path.name.startswith((".", "changed-")):
                path.rename(aside / path.name)
        return aside

    def read_record(self, *, listed: bool = False) -> RunRecord | None:
        """Return the record; None without one. Raises StoreError if the file is damaged.

        `log` is set to `log_address`, because the store may have moved. listed: the working copy is up to date, so the
        bucket is not queried.
        """
        if not listed:
            self.place.match(self.record)
        record = read_document(self.record, run_record_from_json)
        return record and record.replace(log=self.log_address)

    @property
    def log_address(self) -> str:
        """The log's path, or its address in the bucket, for messages and records."""
        return self.place.address_of(self.log)

    def bring(self, name: str) -> Path:
        """Return the local path of a file, after fetching it from the bucket if needed; the file may be missing.

        Raises StoreError if `name` is not a plain file name.
        """
        self.place.bring(f"{self._name}/{check_name(name, 'file')}")
        return self.path / name

    def bring_checkpoints(self) -> None:
        """Fetch all of the run's files from the bucket, including checkpoints; local stores need none."""
        self.place.fetch_folder(self._name, without="")


@dataclass(frozen=True)
class ComparisonDirectory:
    """One comparison's folder, `<out>/comparisons/<comparison>/<case>/<id>`."""

    path: Path
    place: Folder = LOCAL

    comparison = _Inside("comparison.json")
    page = _Inside("index.html")
    evidence = _Inside("evidence")

    def file(self, name: str) -> Path:
        """Return the path of a file in this folder. Raises StoreError if `name` is not a plain file name."""
        return self.path / check_name(name, "file")

    def write_comparison(self, record: ComparisonRecord) -> tuple[ComparisonRecord | None, bool]:
        """Write the record; return the one that it replaces, None if that is damaged, and whether it replaces none."""
        text, before = model_to_json(record), None
        is_new = self.place.create(self.comparison, text.encode())
        if not is_new:
            with suppress(StoreError):  # a damaged record is replaced
                before = self.read_comparison()
        write_atomically(self.comparison, text)
        return before, is_new

    def push(self, *, is_new: bool = False) -> None:
        """Upload the folder to the bucket; does nothing for a local store. is_new: the bucket has only the record."""
        self.place.push(self.path, is_new=is_new)

    def read_comparison(self, *, listed: bool = False) -> ComparisonRecord | None:
        """Return the comparison; None without one. Raises StoreError if the file is damaged.

        listed: the working copy is up to date, so the bucket is not queried.
        """
        if not listed:
            self.place.match(self.comparison)
        return read_document(self.comparison, model_from_json(ComparisonRecord))

    def write_file(self, name: str, text: str) -> Path:
        return write_atomically(self.file(name), text)

    def write_evidence(self, name: str, text: str) -> Path:
        """Write a measurement beside the page; `push` uploads it."""
        return write_atomically(self.evidence / check_name(name, "file"), text)

    def read_evidence[T](self, parse: Callable[[str, str], T]) -> list[T]:
        """Return every measurement beside the page. Raises StoreError if a file is damaged."""
        folder = "/".join((*self.path.parts[-4:], self.evidence.name))
        self.place.refresh_matching(folder, f"{folder}/*.json")
        read = (read_document(path, parse) for path in sorted(self.evidence.glob("*.json")))
        return [one for one in read if one is not None]


def config_text(plan: RunPlan) -> str:
    """Return a plan's config as YAML: a comment with the run's name, then lines `key: value  # origin`."""
    lines = [f"# {plan.run_name}: every value of the run, and where it was set"]
    lines += [f"{key}: {yaml_scalar(value)}  # {plan.origins.get(key, '')}" for key, value in plan.config.items()]
    return "\n".join(lines) + "\n"


def yaml_scalar(value: object) -> str:
    """Return a JSON value as ASCII YAML, without json.dumps's surrogate pairs, which YAML does not join."""
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\x7f")
    return text.encode("ascii", "backslashreplace").decode()
