"""Damages the bytes of a log, and wraps what is left in what exports, launchers and pages put around logs."""

import gzip
import json
import random

import zstandard


def damage(data: bytes, draw: random.Random) -> bytes:
    """Cut, flip, double, delete, insert or move a few stretches of bytes."""
    text = bytearray(data)
    for _ in range(draw.choice((0, 1, 1, 1, 2, 3, 6))):
        begin = draw.randrange(len(text) + 1)
        end = min(len(text), begin + draw.choice((1, 1, 2, 5, 20, 100, 400)))
        piece = bytes(text[begin:end])
        match draw.randrange(9):
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
            case _:
                place = draw.randrange(len(text) + 1)
                text[place:place] = piece
        if not text:
            return b" "
    return bytes(text).replace(b"\0", b"\x01")


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
    match draw.randrange(14):
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
        case _:
            return data
