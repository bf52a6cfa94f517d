"""Turns an output folder into a store: checks that it can be written and finds the run and comparison folders in it."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.store.atomic import StoreError
from tasks.store.directories import ComparisonDirectory, RunDirectory
from tasks.store.files import Files, LocalFiles
from tasks.store.names import check_name


@dataclass(frozen=True)
class Store:
    """An output folder. Names are checked, so no run, comparison or case can stand outside it."""

    path: Path

    def run(self, run_name: str) -> RunDirectory:
        """The folder of a run, whether it exists or not; StoreError for a name that is no folder name."""
        return RunDirectory(self.path / "runs" / check_name(run_name, "run name"))

    def run_of_log(self, log: str) -> RunDirectory:
        """The folder of the run that a record names by its log's path, wherever the store was when it was written."""
        return self.run(PurePath(log).parent.name)

    @property
    def files(self) -> Files:
        """The store's files by name."""
        return LocalFiles(self.path)

    def comparison(self, comparison: str, case: str, id: str) -> ComparisonDirectory:
        """The folder of a comparison, whether it exists or not; StoreError for names that are no folder names."""
        parts = check_name(comparison, "comparison"), check_name(case, "case"), check_name(id, "comparison id")
        return ComparisonDirectory(self.path.joinpath("comparisons", *parts))

    def runs(self) -> Iterator[RunDirectory]:
        """Every run folder that holds a plan or a record, by name."""
        for path in sorted((self.path / "runs").glob("*")):
            directory = RunDirectory(path)
            if directory.plan.is_file() or directory.record.is_file():
                yield directory

    def comparisons(self) -> Iterator[ComparisonDirectory]:
        """Every folder that holds a finished comparison, by comparison, case and id."""
        for path in sorted((self.path / "comparisons").glob("*/*/*/comparison.json")):
            yield ComparisonDirectory(path.parent)


def open_store(out: str | Path) -> Store:
    """The store in the folder `out`, which is made if it is missing. Raises StoreError, and leaves nothing behind, if
    files cannot be written there."""
    if "://" in str(out):
        raise StoreError(f"{out}: only local folders can be the output folder; give one with --out")
    path = Path(out).expanduser().absolute()
    made = [p for p in (path, *path.parents) if not p.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path) as probe:
            probe.write(b"x")
            probe.flush()
    except OSError as error:
        for folder in made:
            if folder.is_dir():
                folder.rmdir()
        reason = error.strerror or str(error)
        raise StoreError(
            f"output folder {path}: files cannot be written there ({reason}); choose another one with --out"
        ) from error
    return Store(path)
