"""A Google Cloud Storage server on loopback: the JSON API with generations, preconditions, ranges and checksums.

`python tests/standins/gcs.py BUCKET…` prints its address and serves until it is ended. `name:get,list` limits the
rights on a bucket, and `name=folder` fills it with that folder's files. It implements the properties on which real
clients rely: every write has a new generation; `ifGenerationMatch` and its kin answer 412 (304 for a conditional read);
`startOffset`, `endOffset`, `delimiter`, `prefix`, `matchGlob` and pages in listings; multipart bodies whose lines end
with LF alone; resumable uploads in chunks; ranged reads; crc32c and md5; compose, rewrite, copy, patch, batch;
permissions and the request to test them. `POST /_faults` takes a list of faults, `{"kind", "times"}`: reads of objects
are answered with `429` or `503`, are `cut` in the middle or `slow`, the server `end`s, or all buckets are `gone`; with
`"after"`, after that many reads. A `stale` listing lacks an object whose name ends in the fault's `"name"`.
"""

import base64
import bisect
import hashlib
import json
import os
import re
import sys
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import google_crc32c

PAGE = 1000
SLOW_S = 0.5  # additional time of a slow read
EVERYTHING = frozenset({"get", "list", "create", "delete", "update"})  # permissions, storage.objects.…
ADDRESS = [""]  # this server, as links in its answers name it


class Refused(Exception):
    """A failed response: status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass
class Blob:
    data: bytes
    generation: int
    created: str
    content_type: str = "application/octet-stream"
    content_encoding: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    metageneration: int = 1


@dataclass
class Bucket:
    """All objects by name. One lock: operations are atomic, as in the real service."""

    blobs: dict[str, Blob] = field(default_factory=dict)
    granted: frozenset[str] = EVERYTHING
    _names: list[str] = field(default_factory=list)
    _changed: bool = False

    def put(self, name: str, blob: Blob) -> None:
        self._changed |= name not in self.blobs
        self.blobs[name] = blob

    def delete(self, name: str) -> None:
        del self.blobs[name]
        self._changed = True

    def names(self) -> list[str]:
        """All objects in order; sorted again only after a change."""
        if self._changed:
            self._names, self._changed = sorted(self.blobs), False
        return self._names


class Service:
    """The state behind the handlers."""

    def __init__(self) -> None:
        self.buckets: dict[str, Bucket] = {}
        self.lock = threading.RLock()
        self.uploads: dict[str, dict[str, Any]] = {}
        self.counter = 1_700_000_000_000_000
        self.faults: list[dict[str, Any]] = []
        self.requests: dict[str, int] = {}  # kind -> count, read by tests at /_requests

    def take_fault(self, *kinds: str) -> dict[str, Any] | None:
        """Return the next pending fault of these kinds."""
        with self.lock:
            for fault in self.faults:
                if fault["kind"] in kinds and fault["times"] > 0:
                    if fault.get("after", 0) > 0:
                        fault["after"] -= 1
                        continue
                    fault["times"] -= 1
                    return fault
        return None

    def bucket(self, name: str) -> Bucket:
        found = self.buckets.get(name)
        if found is None:
            raise Refused(404, f"The specified bucket does not exist: {name}")
        return found

    def allow(self, bucket: str, permission: str) -> None:
        if permission not in self.bucket(bucket).granted:
            reported = (
                f"anonymous does not have storage.objects.{permission} access to the Google Cloud Storage object."
            )
            raise Refused(403, reported)

    def blob(self, bucket: str, name: str, query: dict[str, str]) -> Blob:
        found = self.bucket(bucket).blobs.get(name)
        if found is None or ("generation" in query and int(query["generation"]) != found.generation):
            raise Refused(404, f"No such object: {bucket}/{name}")
        return found

    def put(
        self, bucket: str, name: str, data: bytes, query: dict[str, str], resource: dict[str, Any]
    ) -> dict[str, Any]:
        with self.lock:
            blobs = self.bucket(bucket).blobs
            check(query, blobs.get(name))
            self.counter += 1
            blob = Blob(data=data, generation=self.counter, created=now())
            blob.content_type = resource.get("contentType") or blob.content_type
            blob.content_encoding = resource.get("contentEncoding") or ""
            blob.metadata = dict(resource.get("metadata") or {})
            if resource.get("crc32c") not in (None, crc32c(data)):
                raise Refused(400, "Provided CRC32C does not match")
            if resource.get("md5Hash") not in (None, md5(data)):
                raise Refused(400, "Provided MD5 does not match")
            self.bucket(bucket).put(name, blob)
            return describe(bucket, name, blob)


def check(query: dict[str, str], blob: Blob | None, *, reading: bool = False) -> None:
    """Raise an error if the request's preconditions fail; generation 0 stands for no object."""
    generation = blob.generation if blob else 0
    metageneration = blob.metageneration if blob else 0
    if "ifGenerationMatch" in query and int(query["ifGenerationMatch"]) != generation:
        raise Refused(412, "At least one of the pre-conditions you specified did not hold.")
    if "ifMetagenerationMatch" in query and int(query["ifMetagenerationMatch"]) != metageneration:
        raise Refused(412, "At least one of the pre-conditions you specified did not hold.")
    if "ifGenerationNotMatch" in query and int(query["ifGenerationNotMatch"]) == generation:
        raise Refused(304 if reading else 412, "At least one of the pre-conditions you specified did not hold.")


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def crc32c(data: bytes) -> str:
    return base64.b64encode(google_crc32c.value(data).to_bytes(4, "big")).decode()


def md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def describe(bucket: str, name: str, blob: Blob) -> dict[str, Any]:
    """The service's resource of an object."""
    link = f"{ADDRESS[0]}/download/storage/v1/b/{bucket}/o/{quote(name, safe='')}"
    return {
        "kind": "storage#object",
        "id": f"{bucket}/{name}/{blob.generation}",
        "name": name,
        "bucket": bucket,
        "generation": str(blob.generation),
        "metageneration": str(blob.metageneration),
        "contentType": blob.content_type,
        **({"contentEncoding": blob.content_encoding} if blob.content_encoding else {}),
        "storageClass": "STANDARD",
        "size": str(len(blob.data)),
        "md5Hash": md5(blob.data),
        "crc32c": crc32c(blob.data),
        "etag": f"E{blob.generation}",
        "timeCreated": blob.created,
        "updated": blob.created,
        "metadata": blob.metadata,
        "mediaLink": f"{link}?generation={blob.generation}&alt=media",
    }


def glob_to_regex(glob: str) -> re.Pattern[str]:
    """GCS's matchGlob: `*` and `?` stay within a folder, `**` does not."""
    text = re.escape(glob).replace(r"\*\*", "\0").replace(r"\*", "[^/]*").replace(r"\?", "[^/]").replace("\0", ".*")
    return re.compile(text)


def list_objects(service: Service, bucket: str, query: dict[str, str]) -> dict[str, Any]:
    """One page of a listing, by name."""
    with service.lock:
        blobs = service.bucket(bucket).blobs.copy()
        names = service.bucket(bucket).names()
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    glob = glob_to_regex(query["matchGlob"]) if "matchGlob" in query else None
    after = base64.urlsafe_b64decode(query["pageToken"]).decode() if "pageToken" in query else None
    items: list[dict[str, Any]] = []
    prefixes: list[str] = []
    seen: set[str] = set()
    token, last = None, ""
    most = min(int(query.get("maxResults", PAGE)), PAGE)
    # UTF-8 and code points sort alike; invalid UTF-8 cannot come out of a URL
    for name in names[bisect.bisect_left(names, max(prefix, after or "")) :]:
        if not name.startswith(prefix):
            break
        if after is not None and name <= after:
            continue
        if name < query.get("startOffset", "") or ("endOffset" in query and name >= query["endOffset"]):
            continue
        if glob is not None and not glob.fullmatch(name):
            continue
        rest = name[len(prefix) :]
        folder = prefix + rest[: rest.index(delimiter) + len(delimiter)] if delimiter and delimiter in rest else None
        if folder is not None and (folder in seen or (after is not None and after.startswith(folder))):
            continue
        if len(items) + len(prefixes) >= most:
            token = base64.urlsafe_b64encode(last.encode()).decode()
            break
        last = name
        if folder is not None:
            seen.add(folder)
            prefixes.append(folder)
        else:
            items.append(describe(bucket, name, blobs[name]))
    page: dict[str, Any] = {"kind": "storage#objects", "items": items}
    return page | ({"prefixes": prefixes} if prefixes else {}) | ({"nextPageToken": token} if token else {})


def split_multipart(body: bytes, content_type: str) -> list[bytes]:
    """The parts of a multipart body, headers included; its lines may end with LF alone."""
    match = re.search(r'boundary="?([^";]+)"?', content_type)
    if match is None:
        raise Refused(400, "multipart without a boundary")
    border = b"--" + match[1].encode()
    parts = re.split(rb"(?:^|\r?\n)" + re.escape(border), body)
    return [re.sub(rb"^[ \t]*\r?\n", b"", part, count=1) for part in parts[1:] if not part.startswith(b"--")]


def split_head(part: bytes) -> tuple[dict[str, str], bytes]:
    """Headers in lower case, and the rest."""
    head, _, body = re.sub(rb"\r?\n\r?\n", b"\0\0", part, count=1).partition(b"\0\0")
    lines = head.decode("latin-1").splitlines()
    return {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines) if v}, body


class Handler(BaseHTTPRequestHandler):
    """The JSON API; unknown paths are 501, so that a test never passes by accident."""

    protocol_version = "HTTP/1.1"
    service: Service

    def log_message(self, *_: Any) -> None:
        pass

    def _serve(self) -> None:
        length = self.headers.get("Content-Length")
        body = self._read_chunks() if length is None and self.headers.get("Transfer-Encoding") else b""
        body = self.rfile.read(int(length)) if length else body
        try:
            status, headers, data = self._answer(self.command, self.path, dict(self.headers), body)
        except Refused as refused:
            status, headers = refused.status, {"Content-Type": "application/json"}
            data = json.dumps({"error": {"code": status, "message": refused.message}}).encode()
        if status in (204, 304):
            data = b""
        cut = self.command == "GET" and "alt=media" in self.path and len(data) > 1 and self.service.take_fault("cut")
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if cut:
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
        elif self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = _serve

    def _read_chunks(self) -> bytes:
        data = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def _answer(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        url = urlsplit(path)
        query = {key: values[-1] for key, values in parse_qs(url.query, keep_blank_values=True).items()}
        parts = url.path.strip("/").split("/")
        lower = {name.lower(): value for name, value in headers.items()}
        service = self.service
        if parts == ["_requests"]:
            return as_json(service.requests)
        if parts == ["_faults"]:
            service.faults = json.loads(body)
            return as_json({})
        reading = method == "GET" and query.get("alt") == "media"
        if reading and (fault := service.take_fault("429", "503", "slow", "end", "gone")):
            match fault["kind"]:
                case "slow":
                    time.sleep(SLOW_S)
                case "end":
                    os._exit(0)
                case "gone":
                    service.buckets.clear()
                case status:
                    raise Refused(int(status), "try again later")
        kind = (
            f"{method} {'media' if query.get('alt') == 'media' else parts[0] if parts[0] != 'storage' else len(parts)}"
        )
        with service.lock:
            service.requests[kind] = service.requests.get(kind, 0) + 1
        if parts[:2] == ["batch", "storage"]:
            return self._batch(lower, body)
        if parts[0] == "resumable" or (parts[0] == "upload" and method == "PUT"):
            return self._continue_upload(query, lower, body)
        if parts[0] in ("upload", "download"):
            parts = parts[1:]
            uploading = method == "POST" and url.path.strip("/").startswith("upload")
        else:
            uploading = False
        match [unquote(part) for part in parts]:
            case ["storage", "v1", "b"] if method == "POST":
                name = json.loads(body)["name"]
                if name in service.buckets:
                    raise Refused(409, "Your previous request to create the named bucket succeeded")
                service.buckets[name] = Bucket()
                return as_json({"kind": "storage#bucket", "name": name, "id": name})
            case ["storage", "v1", "b", bucket] if method == "GET":
                service.bucket(bucket)
                return as_json({"kind": "storage#bucket", "name": bucket, "id": bucket, "location": "US"})
            case ["storage", "v1", "b", bucket, "storageLayout"]:
                service.bucket(bucket)
                return as_json({"bucket": bucket, "hierarchicalNamespace": {"enabled": False}})
            case ["storage", "v1", "b", bucket, "iam", "testPermissions"] if method == "GET":
                asked = parse_qs(url.query).get("permissions", [])
                held = [name for name in asked if name.rpartition(".")[2] in service.bucket(bucket).granted]
                return as_json({"kind": "storage#testIamPermissionsResponse", "permissions": held})
            case ["storage", "v1", "b", bucket, "o"] if uploading:
                service.allow(bucket, "create")
                return self._upload(bucket, query, lower, body)
            case ["storage", "v1", "b", bucket, "o"] if method == "GET":
                service.allow(bucket, "list")
                page = list_objects(service, bucket, query)
                return as_json(self._make_stale(page))
            case ["storage", "v1", "b", bucket, "o", name, "compose"] if method == "POST":
                return self._compose(bucket, name, query, json.loads(body))
            case ["storage", "v1", "b", bucket, "o", name, ("rewriteTo" | "copyTo") as verb, "b", to, "o", new]:
                return self._copy(service.blob(bucket, name, {}), to, new, query, body, verb)
            case ["storage", "v1", "b", bucket, "o", name]:
                return self._object(method, bucket, name, query, lower, body)
        raise Refused(501, f"{method} {path} is not served here")

    def _make_stale(self, page: dict[str, Any]) -> dict[str, Any]:
        """The listing, or its state before an object existed that a fault names."""
        named = [fault["name"] for fault in self.service.faults if fault["kind"] == "stale"]
        kept = [item for item in page["items"] if not item["name"].endswith(tuple(named))]
        return page | {"items": kept} if kept != page["items"] and self.service.take_fault("stale") else page

    def _object(
        self, method: str, bucket: str, name: str, query: dict[str, str], headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        self.service.allow(bucket, {"DELETE": "delete", "PATCH": "update"}.get(method, "get"))
        with self.service.lock:
            blob = self.service.blob(bucket, name, query)
            check(query, blob, reading=method == "GET")
            if method == "DELETE":
                self.service.bucket(bucket).delete(name)
                return 204, {}, b""
            if method == "PATCH":
                resource = json.loads(body)
                blob.metadata |= resource.get("metadata") or {}
                blob.content_type = resource.get("contentType", blob.content_type)
                blob.metageneration += 1
        if method in ("GET", "HEAD") and query.get("alt") == "media":
            return read_range(blob, headers.get("range"))
        return as_json(describe(bucket, name, blob))

    def _upload(
        self, bucket: str, query: dict[str, str], headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        kind = query.get("uploadType", "media")
        if kind == "media":
            resource: dict[str, Any] = {"contentType": headers.get("content-type")}
            return as_json(self.service.put(bucket, query["name"], body, query, resource))
        if kind == "multipart":
            described, content = (split_head(p) for p in split_multipart(body, headers["content-type"]))
            resource = {"contentType": content[0].get("content-type")} | json.loads(described[1])
            name = query.get("name") or resource["name"]
            return as_json(self.service.put(bucket, name, content[1], query, resource))
        self.service.bucket(bucket)
        resource = json.loads(body) if body else {}
        name = query.get("name") or resource["name"]
        with self.service.lock:
            check(query, self.service.bucket(bucket).blobs.get(name))
            id = f"u{len(self.service.uploads)}"
            self.service.uploads[id] = {
                "bucket": bucket,
                "name": name,
                "query": query,
                "resource": resource,
                "data": b"",
            }
        host = headers.get("host", "")
        return 200, {"Location": f"http://{host}/resumable/upload?upload_id={id}", "X-GUploader-UploadID": id}, b""

    def _continue_upload(
        self, query: dict[str, str], headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        upload = self.service.uploads.get(query.get("upload_id", ""))
        if upload is None:
            raise Refused(404, "no such upload")
        place = re.fullmatch(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)", headers.get("content-range", "bytes */*"))
        if place is None:
            raise Refused(400, "unreadable Content-Range")
        if place[1] is not None and int(place[1]) > len(upload["data"]):
            raise Refused(503, "a chunk is missing")
        if place[1] is not None or "content-range" not in headers:
            upload["data"] = upload["data"][: int(place[1] or 0)] + body
        total = place[3]
        if "content-range" in headers and (total == "*" or len(upload["data"]) < int(total)):
            so_far = {"Range": f"bytes=0-{len(upload['data']) - 1}"} if upload["data"] else {}
            return 308, so_far, b""
        done = self.service.put(upload["bucket"], upload["name"], upload["data"], upload["query"], upload["resource"])
        return as_json(done)

    def _compose(
        self, bucket: str, name: str, query: dict[str, str], request: dict[str, Any]
    ) -> tuple[int, dict[str, str], bytes]:
        sources = [self.service.blob(bucket, source["name"], {}) for source in request["sourceObjects"]]
        data = b"".join(source.data for source in sources)
        return as_json(self.service.put(bucket, name, data, query, request.get("destination") or {}))

    def _copy(
        self, source: Blob, bucket: str, name: str, query: dict[str, str], body: bytes, verb: str
    ) -> tuple[int, dict[str, str], bytes]:
        resource = {"contentType": source.content_type, "metadata": source.metadata} | (
            json.loads(body) if body else {}
        )
        resource = {k: v for k, v in resource.items() if k in ("contentType", "metadata")}
        made = self.service.put(bucket, name, source.data, query, resource)
        if verb == "copyTo":
            return as_json(made)
        size = str(len(source.data))
        return as_json({"done": True, "objectSize": size, "totalBytesRewritten": size, "resource": made})

    def _batch(self, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        answers = b""
        for part in split_multipart(body, headers["content-type"]):
            outer, inner = split_head(part)
            line, _, rest = inner.partition(b"\n")
            method, path = line.decode().split()[:2]
            inner_headers, inner_body = split_head(rest)
            try:
                status, _, data = self._answer(method, urlsplit(path)._replace(scheme="", netloc="").geturl(),
                                               inner_headers, inner_body)  # fmt: skip
            except Refused as refused:
                status, data = refused.status, json.dumps({"error": {"message": refused.message}}).encode()
            id = outer.get("content-id", "<x>").strip("<>")
            answers += (
                f"--answers\r\nContent-Type: application/http\r\nContent-ID: <response-{id}>\r\n\r\n"
                f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
            ).encode() + data + b"\r\n"  # fmt: skip
        return 200, {"Content-Type": "multipart/mixed; boundary=answers"}, answers + b"--answers--\r\n"


def as_json(value: Any) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json; charset=UTF-8"}, json.dumps(value).encode()


def read_range(blob: Blob, wanted: str | None) -> tuple[int, dict[str, str], bytes]:
    """The content, or the part of it that a Range header names."""
    headers = {
        "Content-Type": blob.content_type,
        **({"Content-Encoding": blob.content_encoding} if blob.content_encoding else {}),
        "X-Goog-Generation": str(blob.generation),
        "X-Goog-Metageneration": str(blob.metageneration),
        "X-Goog-Hash": f"crc32c={crc32c(blob.data)},md5={md5(blob.data)}",
        "X-Goog-Stored-Content-Length": str(len(blob.data)),
        "ETag": f'"E{blob.generation}"',
    }
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", wanted or "")
    if match is None or match[0] == "bytes=-":
        return 200, headers, blob.data
    size = len(blob.data)
    start = int(match[1]) if match[1] else max(0, size - int(match[2]))
    end = min(int(match[2]) + 1 if match[1] and match[2] else size, size)
    if start >= size:
        raise Refused(416, f"The requested range cannot be satisfied: {wanted} of {size}")
    return 206, headers | {"Content-Range": f"bytes {start}-{end - 1}/{size}"}, blob.data[start:end]


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # clients may close connections at any time
            super().handle_error(request, client_address)


def main() -> None:
    service = Service()
    for word in sys.argv[1:]:
        word, _, folder = word.partition("=")
        name, colon, granted = word.partition(":")
        service.buckets[name] = Bucket(granted=frozenset(granted.split(",")) if colon else EVERYTHING)
        for path in (path for path in Path(folder).rglob("*") if path.is_file()) if folder else ():
            service.put(name, path.relative_to(folder).as_posix(), path.read_bytes(), {}, {})
    server = Server(("127.0.0.1", 0), type("BoundHandler", (Handler,), {"service": service}))
    ADDRESS[0] = f"http://127.0.0.1:{server.server_address[1]}"
    sys.stdout.write(f"{ADDRESS[0]}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
