"""Implements `Files` for Google Cloud Storage: objects below gs://bucket/prefix; a version is a generation."""

import base64
import io
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, cast

import google_crc32c
import requests
from google.api_core import exceptions
from google.auth.exceptions import GoogleAuthError
from google.cloud import storage
from google.cloud.storage.retry import DEFAULT_RETRY

from tasks.store.atomic import StoreError
from tasks.store.files import AlreadyThereError, Entry

SCHEME = "gs://"
# last parts of IAM permissions storage.objects.*
READING = ("get", "list")
WRITING = ("create", "delete")
READERS = 10  # limit of concurrent reads; the size of the client's connection pool
TIMEOUT_S = 60  # per request
LOOK_S = 20  # timeout of the check whether a bucket is reachable
CHUNK = 8 << 20  # bytes per request when a stream is read
BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
FORBIDDEN = frozenset("*?[]#")  # characters with a special meaning for gcloud and listings
FIELDS = "items(name,size,generation,crc32c),nextPageToken"


class GcsFiles:
    """The objects below a prefix of a bucket. See `Files` for the methods.

    Google's client finds the credentials in the environment; they are never stored or shown.
    """

    def __init__(self, url: str) -> None:
        bucket, _, prefix = url.removeprefix(SCHEME).partition("/")
        if not url.startswith(SCHEME) or not BUCKET.fullmatch(bucket):
            raise StoreError(
                f"{url}: is not a bucket; give gs://bucket or gs://bucket/prefix, the bucket in lower-case letters, "
                "digits and - _ . (3 to 222 characters)"
            )
        parts = prefix.strip("/").split("/") if prefix.strip("/") else []
        if any(part in ("", ".", "..") for part in parts) or not prefix.isprintable() or FORBIDDEN & set(prefix):
            raise StoreError(
                f"{url}: cannot be a store; give gs://bucket/prefix without empty parts, . or .., and "
                f"without the characters {' '.join(sorted(FORBIDDEN))}"
            )
        self._name = bucket
        self._prefix = "/".join([*parts, ""])

    @property
    def root(self) -> str:
        return f"{SCHEME}{self._name}/{self._prefix}".rstrip("/")

    def check_access(self, *, reading: bool = False) -> bool:
        """Return whether the bucket is writable.

        Raises StoreError with the remedy if the bucket or a required permission is missing. reading: only read access
        is required.
        """
        with self._errors(""):
            permissions = [f"storage.objects.{what}" for what in (*READING, *WRITING)]
            held = self._bucket.test_iam_permissions(permissions, timeout=TIMEOUT_S)
        missing = [name for name in permissions if name not in held]
        needed = [name for name in missing if not reading or name.rpartition(".")[2] in READING]
        if needed:
            role = "objectViewer" if reading else "objectUser"
            raise StoreError(f"{self.root}: you may not do everything there ({', '.join(needed)}); {self._grant(role)}")
        return not missing

    def _grant(self, role: str = "objectUser") -> str:
        return (
            f"let the owner of the bucket type: gcloud storage buckets add-iam-policy-binding {SCHEME}{self._name} "
            f"--member=user:YOU --role=roles/storage.{role}"
        )

    @cached_property
    def _bucket(self) -> Any:
        with self._errors(""):
            return storage.Client().bucket(self._name)

    def read(self, name: str) -> bytes:
        with self._errors(name):
            return cast(bytes, self._blob(name).download_as_bytes(timeout=TIMEOUT_S))

    def read_version(self, name: str) -> tuple[bytes, str] | None:
        blob = self._blob(name)
        try:
            with self._errors(name):
                data = cast(bytes, blob.download_as_bytes(timeout=TIMEOUT_S))
        except FileNotFoundError:
            return None
        return data, str(blob.generation)

    def read_many(self, names: list[str]) -> dict[str, bytes]:
        def read(name: str) -> bytes | None:
            try:
                return self.read(name)
            except FileNotFoundError:
                return None

        _ = self._bucket  # creates the client before threads use it
        with ThreadPoolExecutor(READERS) as pool:
            return {name: data for name, data in zip(names, pool.map(read, names), strict=True) if data is not None}

    def open(self, name: str) -> BinaryIO:
        with self._errors(name):
            blob = self._blob(name)
            # raises for a missing object now, and makes all reads use this generation
            blob.reload(timeout=TIMEOUT_S)
            # raw: no decompression, which would contradict the object's size
            stream = blob.open("rb", chunk_size=CHUNK, raw_download=True, timeout=TIMEOUT_S)
        return cast(BinaryIO, io.BufferedReader(_Stream(stream, lambda: self._errors(name)), CHUNK))

    def head(self, name: str, size: int) -> bytes:
        """Return the first `size` bytes of an object, or all of a shorter one. Raises FileNotFoundError."""
        with self._errors(name):
            try:
                return cast(
                    bytes, self._blob(name).download_as_bytes(end=size - 1, raw_download=True, timeout=TIMEOUT_S)
                )
            except exceptions.RequestRangeNotSatisfiable:  # the object is empty
                return b""

    def write(self, name: str, data: bytes, *, create: bool = False, version: str | None = None) -> None:
        match = 0 if create else int(version) if version is not None else None
        self._send(name, "upload_from_string", data, crc32c=google_crc32c.value(data), match=match)

    def upload(self, name: str, path: Path) -> None:
        self._send(name, "upload_from_filename", str(path))

    def stat(self, name: str) -> Entry | None:
        with self._errors(name):
            blob = self._bucket.get_blob(self._prefix + name, timeout=TIMEOUT_S)
        return None if blob is None else self._entry(blob)

    def entries(self, prefix: str = "", pattern: str | None = None) -> Iterator[Entry]:
        options = {"match_glob": self._prefix + pattern} if pattern is not None else {}
        start = self._prefix + (f"{prefix}/" if prefix else "")
        with self._errors(prefix):
            for blob in self._bucket.list_blobs(prefix=start, fields=FIELDS, timeout=TIMEOUT_S, **options):
                yield self._entry(blob)

    def check_reachable(self) -> None:
        """Raise StoreError if the bucket is unreachable, missing, or the user may not list it."""
        with self._errors(""):
            patience = DEFAULT_RETRY.with_timeout(LOOK_S)
            pages = self._bucket.list_blobs(prefix=self._prefix, max_results=1, timeout=LOOK_S, retry=patience)
            next(iter(pages), None)

    def delete(self, name: str, *, version: str | None = None) -> bool:
        try:
            with self._errors(name):
                match = int(version) if version is not None else None
                self._blob(name).delete(if_generation_match=match, timeout=TIMEOUT_S, retry=DEFAULT_RETRY)
        except FileNotFoundError:
            return version is None
        except AlreadyThereError:
            return False
        return True

    def url(self, name: str) -> str:
        return f"{self.root}/{name}"

    def _blob(self, name: str) -> Any:
        parts = name.split("/")
        if not all(parts) or any(part in (".", "..") for part in parts):
            raise StoreError(f"{name!r} is not the name of a file below {self.root}")
        return self._bucket.blob(self._prefix + name)

    def _send(
        self, name: str, method: str, content: Any, *, crc32c: int | None = None, match: int | None = None
    ) -> None:
        """Upload `content` with the blob's method `method` (of Google's client).

        match: upload only if the object has this generation; 0: only if it is missing; None: always. If the condition
        does not hold, raises AlreadyThereError, unless the object has the checksum `crc32c` of the content.
        """
        send = getattr(self._blob(name), method)
        options = {"content_type": content_type(name), "checksum": "crc32c", "retry": DEFAULT_RETRY}
        try:
            with self._errors(name):
                send(content, timeout=TIMEOUT_S, if_generation_match=match, **options)
        except AlreadyThereError:
            # The client retries. If an earlier request succeeded and its response was lost, the checksums are equal.
            there = self.stat(name)
            if there is None or crc32c is None or there.crc32c != f"{crc32c:08x}":
                raise

    def _entry(self, blob: Any) -> Entry:
        return Entry(
            name=blob.name.removeprefix(self._prefix),
            size=int(blob.size),
            version=str(blob.generation),
            crc32c=base64.b64decode(blob.crc32c).hex() if blob.crc32c else None,
        )

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        """Turn the client's errors in the block into StoreError, or FileNotFoundError if object `name` is missing."""
        place, bucket = self.url(name), f"{SCHEME}{self._name}"
        try:
            yield
        except exceptions.NotFound as error:
            if "bucket does not exist" in (error.message or ""):
                raise StoreError(
                    f"{bucket}: there is no such bucket; create it (gcloud storage buckets create {bucket}), or give "
                    "another"
                ) from error
            raise FileNotFoundError(place) from None
        except exceptions.PreconditionFailed as error:
            raise AlreadyThereError(f"{place}: was written by another process") from error
        except (exceptions.Unauthorized, GoogleAuthError) as error:
            raise StoreError(
                f"{place}: there are no valid credentials ({type(error).__name__}); log in with: gcloud auth "
                "application-default login"
            ) from error
        except exceptions.Forbidden as error:
            raise StoreError(f"{place}: you may not do this; {self._grant()}") from error
        except exceptions.BadRequest as error:  # e.g. an invalid bucket name
            raise StoreError(f"{place}: was refused ({error.message}); check the name") from error
        except (exceptions.GoogleAPICallError, exceptions.RetryError, requests.RequestException) as error:
            raise StoreError(f"{place}: the bucket does not answer ({type(error).__name__}); try again") from error


class _Stream(io.RawIOBase):
    """A stream of an object that raises StoreError instead of the client's errors."""

    def __init__(self, stream: BinaryIO, errors: Callable[[], AbstractContextManager[None]]) -> None:
        self._stream = stream
        self._errors = errors

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with self._errors():
            return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def readinto(self, buffer: Any) -> int:
        with self._errors():
            data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def content_type(name: str) -> str:
    """Return the MIME type of an object, so that browsers show pages and logs instead of downloading them."""
    texts = {"html": "text/html", "js": "text/javascript", "txt": "text/plain", "md": "text/markdown"}
    ending = name.rpartition(".")[2]
    if ending in texts:
        return f"{texts[ending]}; charset=utf-8"
    return {"json": "application/json", "svg": "image/svg+xml"}.get(ending, "application/octet-stream")
