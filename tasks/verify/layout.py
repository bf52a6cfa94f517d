"""Finds the Orbax checkpoint steps at a path, and the items and files of a step.

A step is the folder of one save. An item is a part of a step, such as the tree of arrays or the position in the data.
"""

import json
import logging
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from etils import epath

from tasks.store.atomic import StoreError

TMP_MARK = ".orbax-checkpoint-tmp"
COMMIT_MARKER = "commit_success.txt"
STEP_METADATA = "_CHECKPOINT_METADATA"
TREE_METADATA = "_METADATA"
OCDBT_MANIFEST = "manifest.ocdbt"
V1_MARKER = "orbax.checkpoint"  # a file in steps that have one commit marker for all items
# limit of bytes of a metadata file, of an OCDBT manifest and of cached B-tree nodes; 10,000 arrays need a tenth
MAX_BYTES = 64 << 20

_MARKS = frozenset({STEP_METADATA, COMMIT_MARKER, TREE_METADATA, OCDBT_MANIFEST, "items"})  # names that show a step
_STEP_NAME = re.compile(r"(?:[A-Za-z]+_)?(\d+)")  # `9`; depending on Orbax's options `checkpoint_9` or `00000009`
_TREE_HANDLERS = ("PyTreeCheckpointHandler", "StandardCheckpointHandler", "PyTreeHandler")


class CheckpointError(ValueError):
    """A checkpoint cannot be found, read or compared; the message names the remedy."""


class BucketError(CheckpointError):
    """The bucket is unreachable or unreadable, so its checkpoints are neither proved nor refuted."""


class DamagedFile(ValueError):
    """A metadata file is missing, unreadable or invalid. The message follows the file's path, e.g. `is missing`."""


@dataclass(frozen=True)
class FoundStep:
    """One step's folder; `step` is None if the folder's name is not a step's name."""

    step: int | None
    path: epath.Path


@dataclass(frozen=True)
class Item:
    """One item of a step. `prefix`: the path below the step, "" or ending in "/". `is_tree`: whether it has arrays."""

    prefix: str
    is_tree: bool


def open_path(path: str | os.PathLike[str]) -> epath.Path:
    """Return a path as an epath, a local one as absolute. Raises CheckpointError for an unknown scheme."""
    text = os.fspath(path)
    if "://" not in text:
        return epath.Path(os.path.abspath(os.path.expanduser(text)))
    try:
        return epath.Path(text)
    except KeyError as error:
        raise CheckpointError(f"{text}: {error} is not supported; give a folder or a gs:// address") from error


def step_number(name: str) -> int | None:
    """Return the number in the name of a step's folder, also of an unfinished save; None for other names."""
    match = _STEP_NAME.fullmatch(name.split(TMP_MARK)[0])
    return int(match[1]) if match else None


def find_steps(path: str | os.PathLike[str]) -> list[FoundStep]:
    """Return the checkpoint steps at `path` (a run's folder, its `checkpoints` folder, or one step), sorted by step.

    Folders of unfinished saves (`*.orbax-checkpoint-tmp*`) are omitted unless `path` is one. Raises CheckpointError
    if there is no checkpoint, or if `path` cannot be read.
    """
    root = open_path(path)
    names = _list_names(root)
    if TMP_MARK in root.name or names & _MARKS:
        return [FoundStep(step_number(root.name), root)]
    if not names:
        if step_number(root.name) is not None:
            return [FoundStep(step_number(root.name), root)]  # Orbax lists an empty step folder as a step
        raise CheckpointError(f"{root}: is an empty folder, not a checkpoint; give the folder of a step, or of a run")
    folder = root / "checkpoints" if "checkpoints" in names else root
    _list_names(folder)
    unfinished: list[str] = []
    steps: list[FoundStep] = []
    for child in folder.iterdir():
        if TMP_MARK in child.name:
            unfinished.append(child.name)
        elif child.is_dir() and step_number(child.name) is not None and _can_be_step(child):
            steps.append(FoundStep(step_number(child.name), child))
    if steps:
        return sorted(steps, key=lambda found: (found.step or 0, found.path.name))
    if unfinished:
        raise CheckpointError(
            f"{folder}: holds only unfinished saves ({', '.join(sorted(unfinished)[:3])}): the run is "
            "still saving, or was killed while it did; there is no checkpoint to verify yet"
        )
    raise CheckpointError(
        f"{folder}: holds no Orbax checkpoint (no folder of a step with {STEP_METADATA} or items/); give the folder of "
        "a step such as …/checkpoints/9, a checkpoints folder, or a run's folder"
    )


def find_unfinished(path: str | os.PathLike[str], finished: Collection[int | None] = ()) -> list[FoundStep]:
    """Return the unfinished saves beside the steps of a run, sorted by step, without those of `finished` steps.

    path: the run's folder, or its `checkpoints` folder; a step has none. Raises CheckpointError if it cannot be read.
    """
    root = open_path(path)
    names = _list_names(root)
    if TMP_MARK in root.name or names & _MARKS:
        return []
    folder = root / "checkpoints" if "checkpoints" in names else root
    found = {step_number(name): folder / name for name in sorted(_list_names(folder)) if TMP_MARK in name}
    return [FoundStep(step, found[step]) for step in sorted(found, key=lambda one: one or 0) if step not in finished]


def _list_names(root: epath.Path) -> set[str]:
    try:
        _forget_listings(root)
        raise_if_unreachable(root)
        if not root.exists():
            raise CheckpointError(f"{root}: does not exist; {_suggest_path(root)}")
        if not root.is_dir():
            kind = "a file" if _is_plain(root) else "a pipe or a device"
            raise CheckpointError(f"{root}: is {kind}, not the folder of a checkpoint; give the folder")
        return {child.name for child in root.iterdir()}
    except OSError as error:
        raise CheckpointError(
            f"{root}: cannot be read ({error.strerror or error}); check the path and its rights"
        ) from error
    except ImportError as error:  # epath imports the client of a cloud store on first use
        raise CheckpointError(
            f"{root}: cannot be read here ({error}); install that package, or copy the checkpoint"
        ) from error


def raise_if_unreachable(place: epath.Path) -> None:
    """Raise BucketError with the reason if `place` is in an unreachable bucket.

    Otherwise epath would take minutes, and then report every file as missing."""
    if str(place).startswith("gs://"):
        from tasks.store.gcs import GcsFiles  # takes a second to import; local checkpoints do not need it

        try:
            GcsFiles(str(place)).check_reachable()
        except StoreError as error:
            raise BucketError(str(error)) from error


@contextmanager
def reporting_unreachable_buckets(*places: epath.Path) -> Iterator[None]:
    """Turn every error in the block into CheckpointError if one of the places is in a bucket.

    Raises BucketError instead of any error if a bucket is unreachable: then its files seem missing or damaged."""
    remote = [place for place in places if "://" in str(place)]
    if remote:
        logging.getLogger("gcsfs").setLevel(logging.CRITICAL)  # gcsfs also raises the errors that it logs
    try:
        yield
    except BucketError:
        raise
    except Exception as error:
        for place in remote:
            raise_if_unreachable(place)
        if not remote or isinstance(error, CheckpointError):
            raise
        reason = f"reading broke off ({type(error).__name__}: {error}); try again"
        raise CheckpointError(f"{' and '.join(map(str, remote))}: {reason}") from error


def _suggest_path(missing: epath.Path) -> str:
    """Return the remedy for a missing path, as the end of a message."""
    there: list[FoundStep] = []
    if step_number(missing.name) is not None:
        if missing.with_name(missing.name + TMP_MARK).exists():
            return f"its save was never finished: {missing.name}{TMP_MARK} exists; give another step"
        with suppress(CheckpointError):
            there = find_steps(missing.parent)
    return f"give one of {name_steps(there)}" if there else "give the folder of a checkpoint, or of a run"


def name_steps(found: Sequence[FoundStep]) -> str:
    """Return the folder names of steps; of six or more, only the first two and the last two: `0, 10, …, 80, 90`."""
    names = [one.path.name for one in found]
    return ", ".join(names if len(names) < 6 else [*names[:2], "…", *names[-2:]])


def _can_be_step(folder: epath.Path) -> bool:
    try:
        names = {child.name for child in folder.iterdir()}
    except FileNotFoundError:  # a checkpoint manager has just removed it
        return False
    except PermissionError:  # the verification of this step will report it
        return True
    return not names or bool(names & _MARKS)


def list_files(root: epath.Path) -> dict[str, int]:
    """Return every file below `root`: relative path with "/" → size in bytes, -1 for a pipe or device.

    Omits files that vanish meanwhile, and symbolic links to folders, which Orbax never creates. Returns {}
    if `root` is missing. Raises CheckpointError if a folder cannot be listed or a file cannot be read."""
    _forget_listings(root)
    try:
        return _walk_files(root)
    except OSError as error:
        raise CheckpointError(f"{root}: cannot be read ({error}); check the disk and your rights") from error


def _forget_listings(place: epath.Path) -> None:
    """Drop the cached listings of a bucket's client: they never expire."""
    if "://" in str(place):
        epath.backend.fsspec_backend.fs(place).invalidate_cache()


def _walk_files(root: epath.Path) -> dict[str, int]:
    files: dict[str, int] = {}
    folders = [("", root)]
    while folders:
        prefix, folder = folders.pop()
        try:
            children = list(folder.iterdir())
        except FileNotFoundError:
            continue
        for child in children:
            if child.is_dir():
                if "://" in str(child) or not os.path.islink(child):
                    folders.append((f"{prefix}{child.name}/", child))
                continue
            try:
                plain = _is_plain(child)
                if plain and "://" not in str(child) and not os.access(child, os.R_OK):
                    os.close(os.open(child, os.O_RDONLY))  # raises if the file is unreadable or has vanished
                files[prefix + child.name] = int(child.stat().length) if plain else -1
            except FileNotFoundError:
                continue
    return files


def _is_plain(path: epath.Path) -> bool:
    """Return whether a path is a regular file or in a bucket. Reading pipes may never end. Raises FileNotFoundError."""
    return "://" in str(path) or stat.S_ISREG(os.stat(path).st_mode)


def find_items(handlers: Any, files: Mapping[str, int]) -> list[Item]:
    """Return the items of a step. handlers: `item_handlers` of its metadata. files: path below the step → bytes.

    A step that a StandardCheckpointer or a Checkpointer wrote is a single item with the prefix "".
    """
    if isinstance(handlers, str) or TREE_METADATA in files or OCDBT_MANIFEST in files:
        return [Item("", not isinstance(handlers, str) or handlers.endswith(_TREE_HANDLERS))]
    declared = handlers if isinstance(handlers, dict) else {}
    names = set(declared) | {name.split("/")[0] for name in files if "/" in name}
    items = []
    for name in sorted(name for name in names if TMP_MARK not in name):
        is_tree = str(declared.get(name, "")).endswith(_TREE_HANDLERS)
        items.append(
            Item(f"{name}/", is_tree or bool({f"{name}/{TREE_METADATA}", f"{name}/{OCDBT_MANIFEST}"} & set(files)))
        )
    return items


def read_small(path: epath.Path) -> str:
    """Return the text of a metadata file. Raises DamagedFile if it is missing, empty, unreadable or too large.

    Raises BucketError if it is in an unreachable bucket.
    """
    try:
        if not _is_plain(path):
            raise DamagedFile("is a pipe or a device, not a file")
        if (size := int(path.stat().length)) > MAX_BYTES:
            raise DamagedFile(f"is damaged: {size:,} bytes, where at most {MAX_BYTES:,} are expected")
        text: str = path.read_text()
    except FileNotFoundError as error:
        raise DamagedFile("is missing") from error
    except UnicodeDecodeError as error:
        raise DamagedFile(f"is damaged: byte {error.start} is not text") from error
    except OSError as error:
        raise_if_unreachable(path.parent)
        raise DamagedFile(f"cannot be read ({error.strerror or error})") from error
    if not text:
        raise DamagedFile("is empty")
    return text


def read_metadata(path: epath.Path) -> dict[str, Any]:
    """Return the JSON object in a metadata file. Raises DamagedFile as `read_small` does, and for other content."""
    text = read_small(path)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"is damaged: invalid JSON ({error})") from error
    if not isinstance(value, dict):
        raise DamagedFile(f"is damaged: holds a {type(value).__name__}, not an object")
    return value
