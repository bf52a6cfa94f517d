"""Reads a pod's log: each line once and in order, although the stream may break at any byte."""

import json
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from queue import Queue

from configs.backends.cluster import ClusterSettings
from tasks.launch.backend import LaunchError
from tasks.launch.cluster.kube import KubeApi
from tasks.launch.patience import NotAnswering

AGAIN_S = 1.0  # pause before a broken stream is reopened
CLOUD_TIMEOUT_S = 120.0
FRAME_START = b"XPK Start:"  # the first line of a pod


class LogCursor:
    """The position up to which a log was read.

    A reopened log starts at a whole second, so it repeats the lines of the last second, which are skipped. If those
    lines are not repeated, the kubelet has rotated the log, and lines may be missing: a gap.
    """

    def __init__(self) -> None:
        self._seen: list[datetime] = []  # times of the lines that were read in the last second
        self._met = 0  # how many of these lines the current stream has already repeated
        self.last: str | None = None  # time of the last line, RFC 3339, as the kubelet writes it; None: no line yet

    @property
    def since(self) -> str | None:
        """The time to resume from, RFC 3339; None: from the start."""
        return f"{self._seen[0]:%Y-%m-%dT%H:%M:%SZ}" if self._seen else None

    def open_again(self) -> None:
        """Prepare for a reopened stream, which repeats the lines of the last second."""
        self._met = 0

    def find_gap(self, line: bytes) -> "Gap | None":
        """Return the gap before a timestamped line; None if no lines are missing. Raises ValueError for other lines."""
        moment, text = _split(line)
        unmet = self._seen[self._met :]
        if self.last is None and not text.startswith(FRAME_START):
            return Gap(copy(self), _word(line))
        if unmet and moment not in unmet and moment >= self._seen[0].replace(microsecond=0):
            return Gap(copy(self), _word(line))
        return None

    def take(self, line: bytes) -> bytes | None:
        """Return a line without its timestamp; None if it is a repeated line. Raises ValueError without a timestamp."""
        moment, text = _split(line)
        last = self._seen[0].replace(microsecond=0) if self._seen else None
        unmet = self._seen[self._met :]
        if moment in unmet:
            self._met += unmet.index(moment) + 1
            return None
        if last is not None and moment < last:  # the kubelet's clock was set back
            return None if unmet else text
        same = last == moment.replace(microsecond=0)
        self._seen = [*self._seen, moment] if same else [moment]
        self._met, self.last = len(self._seen), _word(line)
        return text


@dataclass(frozen=True)
class Gap:
    """Lines missing from a log, after a cursor."""

    cursor: LogCursor
    before: str | None  # time of the next known line, RFC 3339; None: the log's end is missing

    @property
    def after(self) -> str | None:
        """The time of the last line before the gap; None: the log's start is missing."""
        return self.cursor.last


def _split(line: bytes) -> tuple[datetime, bytes]:
    return datetime.fromisoformat(_word(line)).astimezone(UTC), line.partition(b" ")[2]


def _word(line: bytes) -> str:
    return line.partition(b" ")[0].decode("ascii", "replace")


def read_lines(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield (line with its line break, True) for each complete line, then (text, False) for an incomplete last line."""
    parts: list[bytes] = []
    for piece in pieces:
        *lines, rest = piece.split(b"\n")
        for line in lines:
            yield b"".join([*parts, line, b"\n"]), True
            parts = []
        parts.append(rest)
    rest = b"".join(parts)
    if rest:
        yield rest, False


class PodLog(threading.Thread):
    """A thread that reads a pod's log into the queue `pieces`: lines and gaps in order, then None at the end."""

    def __init__(self, api: KubeApi, pod: str, container: str, cursor: LogCursor, is_over: Callable[[], bool]) -> None:
        super().__init__(name=f"log of {pod}", daemon=True)
        self._api, self._pod, self._container = api, pod, container
        self._cursor, self._is_over = cursor, is_over
        self._give_up = threading.Event()
        self._wait_s = 0.0  # seconds; the pause that an overloaded API server requested
        self.pieces: Queue[bytes | Gap | None] = Queue()
        self.refused: LaunchError | None = None  # why the log can never be read; None: no such error

    def run(self) -> None:
        try:
            while not self._give_up.is_set():
                over = self._is_over()  # checked before the read, so that the trainer's last lines are not missed
                if self._read(follow=not over) and over:
                    return
                self._give_up.wait(max(AGAIN_S, self._wait_s))
        except RuntimeError:
            if not self._give_up.is_set():  # after `close`, the flow may already have closed the connection
                raise
        finally:
            self.pieces.put(None)

    def close(self) -> None:
        """Stop reading. Called when the pod is gone or the flow ends."""
        self._give_up.set()

    def _read(self, *, follow: bool) -> bool:
        """Read until the stream ends; return whether it was read completely."""
        query = {"timestamps": "true"} | ({"follow": "true"} if follow else {})
        if self._cursor.since:
            query["sinceTime"] = self._cursor.since
        self._cursor.open_again()
        self._wait_s = 0.0
        try:
            with self._api.log(self._pod, self._container, **query) as pieces:
                for line, whole in read_lines(pieces):
                    if not whole and follow:  # an incomplete line, which the reopened stream repeats
                        return False
                    self._take(line)
            return True
        except NotAnswering as error:
            self._wait_s = error.wait_s
            return False
        except ValueError:  # a line without a timestamp: the kubelet's error message
            return False
        except LaunchError as error:
            self.refused = error
            self._give_up.set()
            return False

    def _take(self, line: bytes) -> None:
        gap = self._cursor.find_gap(line)
        if gap is not None:
            self.pieces.put(gap)
        text = self._cursor.take(line)
        if text is not None:
            self.pieces.put(text)


def fetch_from_cloud(settings: ClusterSettings, pod: str, gap: Gap) -> list[bytes]:
    """Return the lines of a gap in a pod's log from Cloud Logging. Raises LaunchError.

    `pod`: the beginning of the pod's name, because its random end is unknown once the pod is gone.
    """
    if settings.project is None:
        raise LaunchError("the target names no `project` of Google Cloud")
    conditions = [
        'resource.type="k8s_container"',
        f'resource.labels.cluster_name="{settings.cluster}"',
        f'resource.labels.namespace_name="{settings.namespace}"',
        f'resource.labels.pod_name:"{pod}"',
    ]
    if gap.cursor.since:
        conditions.append(f'timestamp>="{gap.cursor.since}"')
    if gap.before:
        conditions.append(f'timestamp<"{gap.before}"')
    argv = [
        "gcloud", "logging", "read", " AND ".join(conditions), f"--project={settings.project}", "--format=json",
        "--order=asc", "--freshness=30d",
    ]  # fmt: skip
    try:
        result = subprocess.run(
            argv, capture_output=True, text=True, timeout=CLOUD_TIMEOUT_S, check=True, stdin=subprocess.DEVNULL
        )
        entries = json.loads(result.stdout or "[]")
    except FileNotFoundError as error:
        needed = "it is needed to fetch the missing lines from Cloud Logging"
        raise LaunchError(f"gcloud is not installed; {needed}") from error
    except subprocess.CalledProcessError as error:
        raise LaunchError(f"Cloud Logging does not return the missing lines: {error.stderr.strip()[-500:]}") from error
    except (subprocess.TimeoutExpired, ValueError) as error:
        raise LaunchError(f"Cloud Logging does not return the missing lines: {error}") from error
    return list(take_entries(entries, copy(gap.cursor)))


def take_entries(entries: Sequence[dict[str, object]], cursor: LogCursor) -> Iterator[bytes]:
    """Yield the lines of Cloud Logging's entries that the cursor has not read yet, by the kubelet's times."""
    cursor.open_again()
    for entry in entries:
        payload = entry.get("jsonPayload")
        text = entry.get("textPayload") or (payload.get("message") if isinstance(payload, dict) else None) or ""
        taken = cursor.take(f"{entry.get('timestamp', '')} {str(text).rstrip(chr(10))}\n".encode())
        if taken is not None:
            yield taken
