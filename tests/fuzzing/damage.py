"""Damages the bytes of a log, and wraps the result as exports, launchers and pages do."""

import codecs
import gzip
import json
import random
import re
from typing import Any

import zstandard


def damage(data: bytes, draw: random.Random) -> bytes:
    """Cut, flip, double, delete, insert or move a few stretches of bytes, or whole lines."""
    text = bytearray(data)
    for _ in range(draw.choice((0, 1, 1, 1, 2, 3, 6))):
        begin = draw.randrange(len(text) + 1)
        end = min(len(text), begin + draw.choice((1, 1, 2, 5, 20, 100, 400)))
        piece = bytes(text[begin:end])
        match draw.randrange(17):
            case 0 | 1:
                del text[begin:end]
            case 2:
                text[begin:begin] = piece
            case 3:
                text[begin:end] = piece.replace(b"\n", b" ")
            case 4:
                text[begin:end] = piece.replace(b" ", b"\n")
            case 5:
                text[begin:end] = draw.randbytes(draw.randrange(20)).replace(b"\0", b"")
            case 6 if begin < len(text):
                text[begin] ^= 1 << draw.randrange(8)
            case 7:
                del text[begin:]
            case 8:  # a redrawn progress bar: an extra line break
                text[begin:begin] = draw.choice((b"\n", b"\r", b"\r\n", b"\r\r\n"))
            case 9:  # zeros left by a crash
                text[begin:end] = b"\0" * len(piece)
            case 10:  # another writer's line inside this one
                text[begin:begin] = draw.choice(bytes(text).splitlines(keepends=True))
            case 11:  # lines that were delivered twice
                lines = bytes(text).splitlines(keepends=True)
                first = draw.randrange(len(lines))
                text = bytearray(b"".join([*lines[: first + 5], *lines[first:]]))
            case 12:  # two lines in the wrong order
                lines = bytes(text).splitlines(keepends=True)
                first = draw.randrange(len(lines))
                lines[first : first + 2] = reversed(lines[first : first + 2])
                text = bytearray(b"".join(lines))
            case 13:  # the decimal comma of another locale
                text[begin:end] = piece.replace(b".", b",")
            case 14:
                text[begin:end] = re.sub(rb"(?<=\d)(?=\d{3}(?!\d))", b",", piece)
            case 15:
                text[begin:end] = piece.replace(b" ", draw.choice((b"\t", "\u00a0".encode(), b"  ")))
            case _:
                place = draw.randrange(len(text) + 1)
                text[place:place] = piece
        if not text:
            return b" "
    return bytes(text)


def _colour(data: bytes) -> bytes:
    return data.replace(b"step", b"\x1b[31mstep").replace(b"loss", b"\x1b[32mloss\x1b[39m")


def _bars(data: bytes) -> bytes:
    return b" 50%|#####     | 1/2 [00:01<00:01]\r".join(line + b"\n" for line in data.split(b"\n"))


def _pods(data: bytes) -> bytes:
    return b"".join(b"[pod/job-0-abc/main] " + line + b"\n" for line in data.split(b"\n"))


def _json(data: bytes, draw: random.Random, *, lines: bool) -> bytes:
    entries = [
        {"textPayload": line, "timestamp": f"2026-04-18T00:{n // 60:02d}:{n % 60:02d}.5Z", "insertId": f"{n:06d}"}
        for n, line in enumerate(data.decode("utf-8", "replace").split("\n"))
    ]
    draw.shuffle(entries)
    return "\n".join(map(json.dumps, entries)).encode() if lines else json.dumps(entries, indent=1).encode()


def _docker(data: bytes) -> bytes:
    """Docker's own files, which name the stream and keep the line break; and log agents with other keys."""
    lines = data.decode("utf-8", "replace").splitlines(keepends=True)
    stamps = (f"2026-04-18T00:{number // 60:02d}:{number % 60:02d}.123456789Z" for number in range(len(lines)))
    return "\n".join(
        json.dumps({"log": line, "stream": "stdout", "time": stamp}) for line, stamp in zip(lines, stamps, strict=True)
    ).encode()


def _payload(data: bytes, draw: random.Random) -> bytes:
    """Entries with their text in `jsonPayload`, of one pod or of two, in order."""
    key, pods = draw.choice(("message", "msg", "log")), draw.choice((("a-0",), ("a-0", "a-1")))
    entries = [
        {
            "insertId": f"{number:06d}", "jsonPayload": {key: line, "level": "info"},
            "resource": {"type": "k8s_container", "labels": {"pod_name": draw.choice(pods)}},
            "timestamp": f"2026-04-18T00:{number // 60:02d}:{number % 60:02d}.123456Z", "severity": "INFO",
        }
        for number, line in enumerate(data.decode("utf-8", "replace").split("\n"))
    ]  # fmt: skip
    return "\n".join(map(json.dumps, entries)).encode()


def _split_json(data: bytes, draw: random.Random) -> bytes:
    """Cloud Logging's entries of a long line, in any order."""
    width = draw.choice((60, 250))
    entries = []
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n")):
        stamp = f"2026-04-18T00:{number // 60:02d}:{number % 60:02d}.5Z"
        parts = [line[begin : begin + width] for begin in range(0, len(line), width)] or [""]
        for index, part in enumerate(parts):
            entry: dict[str, Any] = {"textPayload": part, "timestamp": stamp, "insertId": f"{number:06d}"}
            if len(parts) > 1:
                entry["split"] = {"uid": f"u{number}", "index": index, "totalSplits": len(parts)}
            entries.append(json.dumps(entry))
    draw.shuffle(entries)
    return "\n".join(entries).encode()


def _runtime(data: bytes, draw: random.Random) -> bytes:
    """The log file of a node: each stream's long lines in parts."""
    width = draw.choice((40, 300, 5000))
    lines = []
    for number, line in enumerate(data.split(b"\n")):
        head = b"2026-04-18T00:%02d:%02d.123456789Z stdout " % (number // 60, number % 60)
        parts = [line[begin : begin + width] for begin in range(0, len(line), width)] or [b""]
        lines += [head + (b"F " if index == len(parts) - 1 else b"P ") + part for index, part in enumerate(parts)]
    return b"\n".join(lines)


def _clocked(data: bytes, draw: random.Random) -> bytes:
    """Other loggers' prefixes."""
    form = draw.choice((
        "2026-04-18 00:{:02d}:{:02d},123 INFO trainer: ", "INFO:2026-04-18 00:{:02d}:{:02d},123:trainer: ",
        "2026-04-18T00:{:02d}:{:02d}.123456789Z ", "2026-04-18T00:{:02d}:{:02d}+0000 host42 train[123]: ",
        "Apr 18 00:{:02d}:{:02d} host42 train[123]: ", "trainer-1  | ", "\t",
    ))  # fmt: skip
    return b"".join(
        form.format(number // 60, number % 60).encode() + line + b"\n" for number, line in enumerate(data.split(b"\n"))
    )


def _page(data: bytes) -> bytes:
    """The page that compares a run with itself, with both logs below its table."""
    head = (
        "Metrics: Linen vs NNX · main\n| Metric | Linen | NNX | Diff (NNX − Linen) |\n|---|---|---|---|\n"
        "| Parameters | 1.104 | 1.104 | 0.000 |\n| Final loss | 6.939 | 6.939 | 0.000 |\n\n"
    )
    logs = (f"{arm} · 147168c3a · {arm.lower()}-run · full log\n".encode() + data for arm in ("Linen", "NNX"))
    return head.encode() + b"".join(logs)


def wrap(data: bytes, draw: random.Random) -> bytes:
    """One of the wrappings, or none."""
    match draw.randrange(28):
        case 0:
            return gzip.compress(data, 1)
        case 1:
            return zstandard.compress(data, 1)
        case 2:
            return _json(data, draw, lines=True)
        case 3:
            return _json(data, draw, lines=False)
        case 4:
            return _colour(data)
        case 5:
            return _bars(data)
        case 6:
            return _pods(data)
        case 7:
            return data.replace(b"\n", b" ")
        case 9:
            return _page(data)
        case 8:
            return data.replace(b"\n", b"\r\n")
        case 10:
            return _split_json(data, draw)
        case 11:
            return _runtime(data, draw)
        case 12 | 13:
            return _clocked(data, draw)
        case 14:
            return codecs.BOM_UTF8 + data
        case 15:
            return data.decode("utf-8", "replace").encode("utf-16")
        case 17:
            return _docker(data)
        case 18:
            return _payload(data, draw)
        case 16:
            return data.replace(b" ", "\u00a0".encode())
        case _:
            return data
