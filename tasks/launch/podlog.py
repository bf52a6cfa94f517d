"""Turns a pod's log, which may break off at any byte and be opened again, into its lines: each once, in order."""

import json
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from queue import Queue

from configs.launch import Xpk
from tasks.launch.errors import LaunchError
from tasks.launch.kube import KubeApi, NotAnswering

AGAIN_S = 1.0  # until a broken stream is opened again
CLOUD_TIMEOUT_S = 120.0
SECOND = len("2026-11-21T05:00:00")


class LogCursor:
    """How far a log was read.

    The API can only be asked for what came since a whole second, so the lines of the last one are counted: that many
    are skipped when they come again.
    """

    def __init__(self) -> None:
        self._second = ""
        self._taken = 0  # lines of that second
        self._skip = 0

    @property
    def since(self) -> str | None:
        """Where to go on, as RFC 3339; None: from the start."""
        return f"{self._second}Z" if self._second else None

    def open_again(self) -> None:
        """What comes next begins with the lines of the last second."""
        self._skip = self._taken

    def take(self, line: bytes) -> bytes | None:
        """The text of a line that has its time before it; None if it was taken before."""
        time, _, text = line.partition(b" ")
        second = time[:SECOND].decode("ascii", "replace")
        if second == self._second:
            if self._skip:
                self._skip -= 1
                return None
            self._taken += 1
        elif second > self._second:
            self._second, self._taken, self._skip = second, 1, 0
        elif self._skip:  # clocks may be set back; lines of a second that is over were all taken
            return None
        return text


def read_lines(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """(line with its break, True) as pieces come in, and (rest, False) for what follows the last break."""
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
    """Reads a pod's log in the background, into a queue of pieces that ends with None."""

    def __init__(self, api: KubeApi, pod: str, container: str, cursor: LogCursor, is_over: Callable[[], bool]) -> None:
        super().__init__(name=f"log of {pod}", daemon=True)
        self._api, self._pod, self._container = api, pod, container
        self._cursor, self._is_over = cursor, is_over
        self._give_up = threading.Event()
        self.pieces: Queue[bytes | None] = Queue()
        self.refused: LaunchError | None = None  # why there is no log, where that does not get well by itself

    def run(self) -> None:
        try:
            while not self._give_up.is_set():
                over = self._is_over()  # before the read: what a dying trainer wrote last is then read after it
                if self._read(follow=not over) and over:
                    return
                self._give_up.wait(0.0 if over else AGAIN_S)
        except RuntimeError:
            if not self._give_up.is_set():  # else its flow is ending and has closed the connection
                raise
        finally:
            self.pieces.put(None)

    def close(self) -> None:
        """Read no further: the pod is gone."""
        self._give_up.set()

    def _read(self, *, follow: bool) -> bool:
        """Read until the stream ends; False if it broke, or there was none."""
        query = {"timestamps": "true"} | ({"follow": "true"} if follow else {})
        if self._cursor.since:
            query["sinceTime"] = self._cursor.since
        self._cursor.open_again()
        try:
            with self._api.log(self._pod, self._container, **query) as pieces:
                for line, whole in read_lines(pieces):
                    if not whole and follow:  # cut off in a line: it comes again
                        return False
                    text = self._cursor.take(line)
                    if text is not None:
                        self.pieces.put(text)
            return True
        except NotAnswering:
            return False
        except LaunchError as error:
            self.refused = error
            self._give_up.set()
            return False


def fetch_from_cloud(settings: Xpk, pod: str, cursor: LogCursor) -> list[bytes]:
    """The lines of a pod that is gone which the cursor has not taken, out of Cloud Logging. Raises LaunchError.

    `pod` is the beginning of its name: whoever comes after the pod cannot know the random letters at its end.
    """
    wanted = [
        'resource.type="k8s_container"',
        f'resource.labels.cluster_name="{settings.cluster}"',
        f'resource.labels.namespace_name="{settings.namespace}"',
        f'resource.labels.pod_name:"{pod}"',
    ]
    if cursor.since:
        wanted.append(f'timestamp>="{cursor.since}"')
    argv = [
        "gcloud", "logging", "read", " AND ".join(wanted), f"--project={settings.project}", "--format=json",
        "--order=asc", "--freshness=30d",
    ]  # fmt: skip
    try:
        found = subprocess.run(
            argv, capture_output=True, text=True, timeout=CLOUD_TIMEOUT_S, check=True, stdin=subprocess.DEVNULL
        )
        entries = json.loads(found.stdout or "[]")
    except FileNotFoundError as error:
        raise LaunchError(f"the pod {pod} is gone, and gcloud is not there to fetch its log: install it") from error
    except subprocess.CalledProcessError as error:
        tail = error.stderr.strip()[-500:]
        raise LaunchError(f"the pod {pod} is gone, and Cloud Logging does not give its log: {tail}") from error
    except (subprocess.TimeoutExpired, ValueError) as error:
        raise LaunchError(f"the pod {pod} is gone, and Cloud Logging does not give its log: {error}") from error
    return list(take_entries(entries, cursor))


def take_entries(entries: Sequence[dict[str, object]], cursor: LogCursor) -> Iterator[bytes]:
    """The lines of Cloud Logging's entries that the cursor has not taken; their time is the kubelet's."""
    cursor.open_again()
    for entry in entries:
        payload = entry.get("jsonPayload")
        text = entry.get("textPayload") or (payload.get("message") if isinstance(payload, dict) else None) or ""
        line = f"{entry.get('timestamp', '')} {str(text).rstrip(chr(10))}\n".encode()
        taken = cursor.take(line)
        if taken is not None:
            yield taken
