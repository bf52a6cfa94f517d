"""Lists the logs at a gs:// address (an object, or the objects below a folder) and copies them to this machine."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.scrape.window import LogFormatError
from tasks.scrape.wrappings.unpack import GZIP, ZSTD
from tasks.store.atomic import StoreError

if TYPE_CHECKING:
    from tasks.store.gcs import GcsFiles

SCHEME = "gs://"
LOOK = 4096  # bytes of an object that are read to recognise a log
LOOKS = 10  # objects that are read at the same time


def list_logs(address: str) -> list[str]:
    """Return the addresses of the object at an address, or of the objects below it that can be logs (see `can_be_log`).

    Only the beginning of each object is read. Raises LogFormatError.
    """
    folder, name = _split(address)
    with _log_errors(address):
        if name and _open_bucket(folder).stat(name) is not None:
            return [address]
        below = _open_bucket(folder + (f"/{name}" if name else ""))
        names = [entry.name for entry in below.entries() if entry.size and not entry.name.endswith("/")]
        if not names:
            raise LogFormatError(f"{address}: there is no object of this name and none below it; check the address")
        with ThreadPoolExecutor(LOOKS) as pool:
            kept = list(pool.map(lambda one: can_be_log(below.head(one, LOOK)), names))
    return [below.url(one) for one, keep in zip(names, kept, strict=True) if keep]


def can_be_log(head: bytes) -> bool:
    """Whether a file that begins with `head` can be a log: it is compressed, or text, which has no NUL bytes."""
    return head.startswith((GZIP, ZSTD)) or b"\0" not in head


@contextmanager
def on_this_machine(logs: Sequence[str]) -> Iterator[list[Path]]:
    """Yield local paths of logs; objects in buckets are copied and removed after the block. Raises LogFormatError."""
    with tempfile.TemporaryDirectory(prefix="maxview-") as folder:
        yield [
            _bring(log, Path(folder, str(number))) if log.startswith(SCHEME) else Path(log)
            for number, log in enumerate(logs)
        ]


def _bring(address: str, folder: Path) -> Path:
    """Copy one object into a local folder, with its own name below its parent folder's name; returns the path."""
    place, name = _split(address)
    target = folder.joinpath(
        *(part for part in address.removeprefix(SCHEME).split("/")[-2:] if part not in ("", ".", ".."))
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    with _log_errors(address), _open_bucket(place).open(name) as stream, target.open("wb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)
    return target


def _split(address: str) -> tuple[str, str]:
    """Split an address into folder (or bucket) and name; the name is "" for a bucket or a trailing slash."""
    bucket, _, path = address.removeprefix(SCHEME).partition("/")
    folder, _, name = path.rpartition("/")
    return f"{SCHEME}{bucket}" + (f"/{folder}" if folder else ""), name


def _open_bucket(place: str) -> "GcsFiles":
    from tasks.store.gcs import GcsFiles  # takes a second to import; few readings need it

    return GcsFiles(place)


@contextmanager
def _log_errors(address: str) -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise LogFormatError(str(error)) from error
    except FileNotFoundError as error:
        raise LogFormatError(f"{address}: there is no such object; check the address") from error
