"""Where a store's files lie: `Folder` is a local folder; `Mirror`, a subclass, is a bucket with a local working copy.

No code outside of this package asks which of them a store has.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tasks.store.atomic import write_atomically
from tasks.store.files import Files, LocalFiles
from tasks.store.locks import hold

LEFT_OUT = "checkpoints/"  # subfolder that is fetched only on request, because checkpoints can be read in the bucket


class Folder:
    """A local folder. Most methods do nothing: they exchange files with a bucket, or claim runs in it.

    A `name` is a path below the store; a `path` is a path on this machine.
    """

    has_copy = False  # whether the store's folder is a working copy, which this machine may write even without access
    reaches_pods = False  # whether the pods of a cluster can write to the store

    def files_below(self, path: Path) -> Files:
        """Return the files of the store in the folder `path`."""
        return LocalFiles(path)

    def address_of(self, path: Path) -> str:
        """Return the path, or in a bucket the gs:// address, of a file, for messages."""
        return str(path)

    def translate(self, text: str) -> str:
        """Return a text that pods read: a path of the working copy becomes its address in the bucket."""
        return text

    def link_to(self, path: Path) -> str:
        """Return a URL that opens a file in a browser; for a bucket, this requires a login with read access."""
        return path.as_uri()

    def link_for_others(self, path: Path) -> str | None:
        """Return `link_to`, if the link works on other machines."""
        return None

    def link_from_page(self, path: Path, name: str, depth: int) -> str:
        """Return the link to a file on a page that is `depth` folders below the store."""
        return "../" * depth + quote(name)

    def claim(
        self,
        name: str,
        flow_runs: tuple[str, ...] = (),
        *,
        is_over: Callable[[tuple[str, ...]], bool] | None = None,
        checkpoints: bool = True,
    ) -> None:
        """Claim a run in the bucket, and fetch the files of another machine's earlier attempt."""

    def check_claim(self, name: str) -> None:
        """Raise StoreError if another machine has taken over the run."""

    def push_begun(self, name: str) -> None:
        """Upload the files that another machine needs to continue an unfinished run."""

    def create(self, path: Path, data: bytes) -> bool:
        """Return whether the store lacks the file; a bucket then has it, before any other file of its folder."""
        return not path.exists()

    def push(self, path: Path, *, is_new: bool = False) -> None:
        """Upload a file or a folder. is_new: the folder of a comparison of which the bucket has only the record."""

    def match(self, path: Path) -> None:
        """Make the file in the working copy equal to the bucket's."""

    def fetch(self, name: str) -> bool:
        """Download a file; return whether the store has fetched it."""
        return False

    def bring(self, name: str) -> None:
        """Download a file of a run that has ended, if the working copy differs."""

    def refresh_matching(self, prefix: str, pattern: str) -> None:
        """Download the changed files of a folder whose names match a pattern."""

    def fetch_folder(self, name: str, *, without: str = LEFT_OUT) -> None:
        """Download a folder's changed files."""

    def end_run(self, name: str, record: Path, text: str) -> Path:
        """Write a run's record, its last file; return the record's path."""
        return write_atomically(record, text)

    def lock(self, path: Path, wait: Callable[[str], Any]) -> AbstractContextManager[None]:
        """Lock the file `path` against other writers (see `hold`). A bucket has no locks: it checks versions."""
        return hold(path, wait)
