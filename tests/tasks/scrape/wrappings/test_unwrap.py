"""A log reads the same in every wrapping: archives, exports, prefixes of each line, colours, progress bars."""

import gzip
import itertools
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tasks.records.log_reading import LogReading, RunReading
from tasks.scrape.read_log import scrape, scrape_chunks, scrape_text
from tasks.scrape.window import LogFormatError
from tasks.scrape.wrappings import unwrap
from tasks.scrape.wrappings.exports import sortable

TRACEBACK = """Traceback (most recent call last):
  File "/deps/src/maxtext/train.py", line 744, in <module>
    app.run(main)
NotImplementedError: Pure NNX support has not been implemented yet."""


@pytest.fixture(scope="module")
def log(logs: Any) -> bytes:
    """A log with steps, a checkpoint and a death."""
    save = logs.line("[process=0] Saving checkpoint at step 20", source="checkpoint_manager.py:1512")
    lines = logs.steps(40)
    framed: bytes = logs.framed("Num_devices: 32, shape (1, 32)", *lines[:21], save, *lines[21:], TRACEBACK, code=1)
    return framed


def exported(log: bytes, pod: str = "job-0-0-abcde") -> list[dict[str, Any]]:
    """The entries of Cloud Logging (LogEntry of its REST reference) for the lines of a log, newest first."""
    entries = [
        {
            "insertId": f"id{number:06d}",
            "resource": {"type": "k8s_container", "labels": {"pod_name": pod, "container_name": "jax-tpu"}},
            "severity": "ERROR" if number % 3 else "INFO",
            # the fraction has as many digits as it needs; some lines have the same time
            "timestamp": f"2026-04-18T00:00:{number // 4:02d}.{'5' if number % 4 // 2 else '25'}Z",
            **({"textPayload": text} if number % 2 else {"jsonPayload": {"message": text}}),
        }
        for number, text in enumerate(log.decode().splitlines())
    ]
    return entries[::-1]


def coloured(log: bytes) -> bytes:
    """The log as shown by a terminal, with a progress bar before some lines."""
    text = log.replace(b"completed step", b"\x1b[32mcompleted step\x1b[0m").replace(b"I0418", b"\x1b[1;34mI0418")
    return text.replace(b"\nXPK End", b"\nSaving:  10%|#    | 1/10\rSaving: 100%|#####| 10/10\r\nXPK End")


WRAPPINGS: dict[str, tuple[Callable[[bytes], bytes], tuple[str, ...]]] = {
    "gzip": (gzip.compress, ("gzip",)),
    "gzip, two members": (lambda log: gzip.compress(log[:900]) + gzip.compress(log[900:]), ("gzip",)),
    "zstd": (zstandard.compress, ("zstd",)),
    "zstd, two frames": (lambda log: zstandard.compress(log[:900]) + zstandard.compress(log[900:]), ("zstd",)),
    "colours": (coloured, ("colour codes", "carriage returns")),
    "kubectl": (
        lambda log: b"".join(b"[pod/job-0-0-abcde/jax-tpu] " + line for line in log.splitlines(keepends=True)),
        ("kubectl prefixes",),
    ),
    "text export": (
        lambda log: b"".join(
            b"ERROR 2026-04-18T00:55:39.221671Z [resource.labels.containerName: jax-tpu] " + line
            for line in log.splitlines(keepends=True)
        ),
        ("export prefixes",),
    ),
    "timestamps": (
        lambda log: b"".join(b"2026-04-18T00:55:39.221671333Z " + line for line in log.splitlines(keepends=True)),
        ("export prefixes",),
    ),
    "JSON": (lambda log: json.dumps(exported(log), indent=2).encode(), ("JSON export",)),
    "JSON lines": (lambda log: "\n".join(map(json.dumps, exported(log))).encode(), ("JSON export",)),
    # oldest first, without spaces; the first entry has text
    "JSON lines of a bucket sink": (
        lambda log: "\n".join(
            json.dumps(entry, separators=(",", ":")) for entry in exported(b"\n" + log)[-2::-1]
        ).encode(),
        ("JSON export",),
    ),
    "docker": (
        lambda log: "".join(
            json.dumps({"log": f"{line}\n", "stream": "stderr", "time": f"2026-04-18T00:00:00.{n:09d}Z"}) + "\n"
            for n, line in enumerate(log.decode().splitlines())
        ).encode(),
        ("JSON export",),
    ),
    "JSON lines in gzip": (
        lambda log: gzip.compress("\n".join(map(json.dumps, exported(log))).encode()),
        ("gzip", "JSON export"),
    ),
}  # fmt: skip


def content(run: RunReading) -> dict[str, Any]:
    """A reading without its name and its list of wrappings."""
    return run.model_dump(exclude={"name": True, "coverage": {"unwrapped"}})


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_every_wrapping(wrapping: str, log: bytes, tmp_path: Path) -> None:
    wrap, names = WRAPPINGS[wrapping]
    path = tmp_path / "log"
    path.write_bytes(wrap(log))
    plain = log
    if wrapping == "colours":  # the progress bar's two states remain as lines
        plain = log.replace(b"\nXPK End", b"\nSaving:  10%|#    | 1/10\nSaving: 100%|#####| 10/10\r\nXPK End")
    expected = scrape_text(plain, name="log").runs[0]
    assert expected.error is not None
    assert expected.error.type == "NotImplementedError"
    assert expected.steps.height == 40
    for reading in (scrape(path), scrape_text(wrap(log), name="log")):
        (run,) = reading.runs
        assert run.coverage.unwrapped == names
        assert content(run) == content(expected)


def in_pieces(data: bytes, size: int) -> LogReading:
    """The reading of a text that arrives in pieces of this many bytes."""
    pieces = [data[begin : begin + size] for begin in range(0, len(data), size)]
    return scrape_chunks(lambda: iter(pieces), name="log")


def test_chunks_may_end_anywhere(log: bytes) -> None:
    expected = content(scrape_text(log, name="log").runs[0])
    for size in (1, 7, 100):
        for wrapping in ("gzip", "zstd", "kubectl", "JSON"):
            run = in_pieces(WRAPPINGS[wrapping][0](log), size).runs[0]
            assert content(run) == expected, (wrapping, size)


def test_pods_are_separate_runs(log: bytes, logs: Any) -> None:
    other = logs.framed(*logs.steps(10))
    pods = {"job-0-0-aaaaa/jax-tpu": log, "job-0-1-bbbbb/jax-tpu": other, "job-0-1-bbbbb/sidecar": b"mounted\n" * 30}
    lines = [(f"[pod/{pod}] ".encode(), text.splitlines(keepends=True)[::-1]) for pod, text in pods.items()]
    mixed = b""
    order = random.Random(1)
    while lines := [(prefix, left) for prefix, left in lines if left]:
        prefix, left = order.choice(lines)
        mixed += prefix + left.pop()
    runs = {run.name: run for run in scrape_text(mixed, name="log").runs}
    assert set(runs) == {"job-0-0-aaaaa/jax-tpu", "job-0-1-bbbbb/jax-tpu"}
    for name, run in runs.items():
        assert content(run) == content(scrape_text(pods[name], name="log").runs[0])
    both = exported(log, "first") + exported(other, "second")
    order.shuffle(both)
    named = {run.name: run.steps.height for run in scrape_text(json.dumps(both).encode(), name="log").runs}
    assert named == {"first": 40, "second": 10}


@pytest.mark.parametrize(
    "damaged", ['"textPoyload": "', '"textPayload" "', "x", '"textPayload": "a", "textPayload": "']
)
@pytest.mark.parametrize("indent", [None, 1])
def test_an_omitted_entry_is_reported(damaged: str, indent: int | None, log: bytes) -> None:
    entries = exported(log)
    text = json.dumps(entries, indent=indent) if indent else "\n".join(map(json.dumps, entries))
    place = text.index('"textPayload": "', text.index("completed step: 7,") - 300)
    while text.index("completed step: 7,") > text.index('"textPayload": "', place + 1):
        place = text.index('"textPayload": "', place + 1)
    text = text[:place] + damaged + text[place + len('"textPayload": "') :]
    (run,) = scrape_text(text.encode(), name="log").runs
    assert run.steps["step"].to_list() == [step for step in range(40) if step != 7]
    assert (run.coverage.step_lines_seen, run.coverage.step_lines_parsed) == (40, 39)
    assert run.coverage.unwrapped == ("JSON export", "1 damaged entry left out")
    assert not run.coverage.complete


def test_a_lone_step_line_of_a_source_is_reported(logs: Any) -> None:
    """Two pods, one with a single line, so damaged that it belongs to no trainer."""
    said = [("a", line) for line in logs.framed(*logs.steps(10)).decode().splitlines()]
    (step,) = (line for _, line in said if "completed step: 7," in line)
    for line, count in ((step[step.index("d step") :], 1), ("a container beside the trainer's", 0)):
        entries = [
            {"insertId": f"{n:06d}", "textPayload": text, "resource": {"labels": {"pod_name": pod}}}
            for n, (pod, text) in enumerate([*said, ("b", line)])
        ]
        (run,) = scrape_text("\n".join(map(json.dumps, entries)).encode(), name="log").runs
        assert run.coverage.step_lines_seen - run.coverage.step_lines_parsed == count
        assert run.coverage.complete == (count == 0)


def test_a_line_without_its_pod_is_reported(logs: Any) -> None:
    names = (b"[pod/a/main] ", b"[pod/b/main] ")
    lines = [name + line for name in names for line in logs.framed(*logs.steps(10)).splitlines(keepends=True)]
    whole = scrape_text(b"".join(lines), name="log").runs
    assert [(run.coverage.complete, run.coverage.step_lines_seen) for run in whole] == [(True, 10)] * 2
    (lost,) = (n for n, line in enumerate(lines) if line.startswith(names[1]) and b"completed step: 3," in line)
    lines[lost] = lines[lost].removeprefix(names[1])
    for run in scrape_text(b"".join(lines), name="log").runs:
        assert not run.coverage.complete  # its pod is unknown
        assert run.coverage.step_lines_seen == run.coverage.step_lines_parsed + 1
        assert "1 damaged entry left out" in run.coverage.unwrapped


def test_a_pod_whose_name_is_not_text(logs: Any) -> None:
    lines = logs.framed(*logs.steps(10)).splitlines(keepends=True)
    (run,) = scrape_text(b"".join(b"[pod/a\xe1/main] " + line for line in lines), name="log").runs
    assert run.steps.height == 10


def test_entries_in_any_order(log: bytes) -> None:
    expected = content(scrape_text(log, name="log").runs[0])
    shuffled = exported(log)
    random.Random(2).shuffle(shuffled)
    for found in (shuffled, exported(log), exported(log)[::-1]):
        for form in ("\n".join(map(json.dumps, found)), json.dumps(found, indent=2), json.dumps(found)):
            (run,) = in_pieces(form.encode(), 700).runs
            assert content(run) == expected


def test_a_damaged_entry_loses_only_itself(log: bytes) -> None:
    lines = [json.dumps(entry) for entry in exported(log)[::-1]]
    step = next(n for n, line in enumerate(lines) if "completed step: 7," in line)
    lines[step] = lines[step][:60]
    run = scrape_text("\n".join(lines).encode(), name="log").runs[0]
    assert run.steps["step"].to_list() == [*range(7), *range(8, 40)]
    assert run.coverage.gaps == ((7, 7),)


def test_a_truncated_archive_is_read_to_its_end(log: bytes) -> None:
    whole = gzip.compress(log, compresslevel=0)
    run = scrape_text(whole[: len(whole) // 2], name="log").runs[0]
    assert 0 < run.steps.height < 40
    assert not run.coverage.complete


def test_damage_to_an_archive_without_a_checksum(log: bytes) -> None:
    """One byte is copied into every similar line, and in most of them the damage is invisible."""
    packed, refused = zstandard.compress(log), 0
    for place in range(20, len(packed), 7):
        damaged = packed[:place] + bytes([packed[place] ^ 16]) + packed[place + 1 :]
        try:
            coverage = scrape_text(damaged, name="log").runs[0].coverage
            assert coverage.step_lines_parsed > 0.75 * coverage.step_lines_seen or coverage.step_lines_seen < 11
        except LogFormatError as error:
            refused += "step lines are damaged" in str(error)
    assert refused
    checked = zstandard.ZstdCompressor(write_checksum=True).compress(log)
    place = len(checked) // 2
    with pytest.raises(LogFormatError, match="is a damaged zstd file"):
        scrape_text(checked[:place] + bytes([checked[place] ^ 16]) + checked[place + 1 :], name="log")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x1f\x8b\x08\x00garbage that is no archive", r"log: is a damaged gzip file: .*; copy it again"),
        (b"\x28\xb5\x2f\xfdgarbage that is no archive", r"log: is a damaged zstd file: .*; copy it again"),
        (gzip.compress(b"dear diary\n", mtime=0), r"log: contains no training log"),
        (gzip.compress(b"a\0\1b\n", mtime=0), r"log:1: is not text"),
        (json.dumps([{"textPayload": "dear diary", "timestamp": "x"}]).encode(), r"log: contains no training log"),
        (b'[{"textPayload": 3}]', r"log: is an export without entries that hold text; export the logs again"),
    ],
)
def test_files_other_than_logs_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(LogFormatError, match=message):
        scrape_text(data, name="log")


def test_an_invalid_part_number() -> None:
    split: dict[str, Any] = {"uid": "e", "index": "x1", "totalSplits": float("inf")}
    entries: list[dict[str, Any]] = [{"textPayload": "XPK Start: ", "split": split}, {"textPayload": "EXIT_CODE=0"}]
    with unwrap(lambda: iter(["\n".join(map(json.dumps, entries)).encode()]), "x") as found:
        assert sorted(b"".join(found.logs[""]()).splitlines()) == [b"EXIT_CODE=0", b"XPK Start: "]


@pytest.mark.parametrize("stamp", ["0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00", "2026-13-01T00:00:00Z!"])
def test_an_invalid_time_sorts_first(stamp: str) -> None:
    assert sortable(stamp) == ""


def test_dockers_parts_of_a_long_line_are_joined() -> None:
    parts = ["XPK Start: long ", "line\n", "EXIT_CODE=0\n"]
    data = "\n".join(json.dumps({"log": part, "time": f"2026-04-18T00:00:0{n}Z"}) for n, part in enumerate(parts))
    with unwrap(lambda: iter([data.encode()]), "x") as found:
        assert b"".join(found.logs[""]()) == b"XPK Start: long line\nEXIT_CODE=0\n"


@pytest.mark.parametrize(("lost", "steps"), [(0, [1, 2]), (1, []), (2, [0, 1])])
def test_a_lost_part_of_a_split_entry_is_not_bridged(logs: Any, lost: int, steps: list[int]) -> None:
    """Cloud Logging splits long entries anywhere, also inside numbers, so the two sides of a lost part belong to
    different numbers.
    """
    text = " ".join(logs.steps(3))
    points = [match.end() for match in re.finditer(r"perplexity: \d+\.", text)]
    entries: list[dict[str, Any]] = [
        {"textPayload": text[begin:end], "split": {"uid": "u", "index": number, "totalSplits": 3}}
        for number, (begin, end) in enumerate(itertools.pairwise([0, points[0], points[2], len(text)]))
    ]
    whole = scrape_text("\n".join(map(json.dumps, entries)).encode(), name="x").runs[0]
    assert whole.steps["step"].to_list() == [0, 1, 2]
    del entries[lost]
    run = scrape_text("\n".join(map(json.dumps, entries)).encode(), name="x").runs[0]
    assert run.steps["step"].to_list() == steps


def test_a_pod_with_an_arbitrary_log_is_read_beside_another(logs: Any) -> None:
    texts = {"a-0": logs.framed(*logs.steps(3), "\0 \x06"), "a-1": logs.framed(*logs.steps(2))}
    entries = [
        {"jsonPayload": {"message": line}, "resource": {"labels": {"pod_name": pod}}}
        for pod, text in texts.items()
        for line in text.decode().splitlines()
    ]
    reading = scrape_text("\n".join(map(json.dumps, entries)).encode(), name="x")
    assert [(run.name, run.steps.height, run.coverage.complete) for run in reading.runs] == [
        ("a-0", 3, True),
        ("a-1", 2, True),
    ]


def test_a_refused_pod_with_step_lines_is_reported(logs: Any) -> None:
    """Rows of a dialect with damaged markers: no reader takes them, but they are not a sidecar's log either."""
    for odd, complete in (("completed step 3 of 10", False), ("GET /healthz 200", True)):
        lines = [("a-0", line) for line in logs.framed(*logs.steps(2)).decode().splitlines()] + [("b-0", odd)]
        data = "".join(f"[pod/{pod}/main] {line}\n" for pod, line in lines)
        (run,) = scrape_text(data.encode(), name="x").runs
        assert (run.name, run.coverage.complete) == ("a-0/main", complete)
        assert run.coverage.step_lines_seen == 3 - complete
