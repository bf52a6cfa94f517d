"""Replays a stored log as a job: prints its lines and creates its checkpoints in the same order and rhythm.

`play_log.py '{"log": …, "begin": …, "end": …, "speed": …, "exit_code": …, "checkpoints": [[step, started, committed],
…], "source": …, "home": …, "directory": …}'`: begin, end, started and committed are byte offsets in the log. `source`
is the stored run's folder, or null if it has no checkpoints. `home` is this folder's path in the log, or null. With a
`source`, the replay prints `directory`, the new run's folder, instead of `home`, and at the end copies the files
`metrics.jsonl` and `program.json` if they exist. At `speed` 60, a minute of the log takes a second. The replay's exit
code is `exit_code`. Imports only the standard library and sleeps between lines, so that hundreds of replays fit on one
machine.
"""

import json
import mmap
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

# A logger's date, absl `I0418 00:55:39.221671` or ISO `2026-04-18 00:55:39,221`, after at most 80 other characters of
# the line. A later date belongs to the message.
_DATED = re.compile(
    rb"(?m)^[^\n]{0,80}?(?:"
    rb"[IWEF](\d{2})(\d{2}) (\d\d):(\d\d):(\d\d\.\d{1,6})|"
    rb"20\d\d-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d(?:[.,]\d{1,6})?))"
)
# A step's line with its duration. Used if no line of the log has a date.
_TOOK = re.compile(rb"completed step: \d+, seconds: (\d+(?:\.\d+)?)|elapsed time per iteration \(ms\): (\d+(?:\.\d+)?)")
# lines about a job's start and end, which the replay leaves out
_FRAME = re.compile(rb"XPK (?:Start|End): \w{3} \w{3} +\d+ [\d:]{8}(?: [AP]M)? \w+ \d{4}\n?|EXIT_CODE=\d+\n?")
TMP_MARK = ".orbax-checkpoint-tmp"  # Orbax's suffix of an uncommitted checkpoint's folder
MAX_WAIT_S = 86400.0  # a longer wait between two lines is shortened to this
YEAR = 2024  # stands for every year, because absl's dates have none; a leap year, so that 29 February is valid
HALF_A_YEAR = 180  # days


def find_times(data: "mmap.mmap | bytes", begin: int, end: int) -> Iterator[tuple[float, int]]:
    """Yield (seconds since the first line with a date, byte offset) of every line with a date.

    If no line has a date, yields (sum of the printed durations up to this step, byte offset) of every step.
    """
    first: datetime | None = None
    for match in _DATED.finditer(data, begin, end):
        words = [word.replace(b",", b".") for word in match.groups() if word is not None]
        month, day, hour, minute = (int(word) for word in words[:4])
        second = float(words[4])
        try:
            moment = datetime(YEAR, month, day, hour, minute, int(second), int(second % 1 * 1e6))
        except ValueError:
            continue
        first = first or moment
        if (moment - first).days < -HALF_A_YEAR:  # the run passed New Year
            moment = moment.replace(year=YEAR + 1) if (month, day) != (2, 29) else moment
        yield (moment - first).total_seconds(), match.start()
    if first is None:
        passed = 0.0
        for match in _TOOK.finditer(data, begin, end):
            passed += float(match[1]) if match[1] else float(match[2]) / 1e3
            yield passed, match.start()


def copy_checkpoint(step: int, source: Path, folder: Path, *, done: bool) -> None:
    """Create a copy of the stored run's checkpoint, under its temporary name or, if `done`, its final name.

    Uses hard links where the file system allows it. Does nothing if an earlier attempt created the final name.
    """
    final, partial = folder / str(step), folder / f"{step}{TMP_MARK}"
    if final.exists():  # an earlier attempt of this run created it
        return
    if not partial.exists():
        shutil.copytree(source / str(step), partial, copy_function=link)
    if done:
        partial.rename(final)


def link(source: str, target: str) -> None:
    """Create a hard link to a file, or a copy if the file system does not allow the link."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def main(argv: list[str]) -> int:
    """Replay the log that the JSON in argv[0] describes; return its `exit_code`."""
    job = json.loads(argv[0])
    begin, end, speed = int(job["begin"]), int(job["end"]), float(job["speed"])
    target = Path(job["directory"])
    source = Path(job["source"]) if job["source"] else None
    home, here = str(job["home"] or "").encode(), str(target).encode()  # `here` replaces `home` in the output
    marks = sorted(
        (offset, step, done)
        for step, *offsets in job["checkpoints"]
        for done, offset in enumerate(offsets)
        if offset is not None
    )
    started = time.monotonic()
    position = begin
    with open(job["log"], "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        stops = sorted([(offset, seconds) for seconds, offset in find_times(data, begin, end)])
        for offset, seconds in [*stops, (end, 0.0)]:
            if offset > position:
                text = _FRAME.sub(b"", data[position:offset])
                sys.stdout.buffer.write(text.replace(home, here) if source is not None and home else text)
                sys.stdout.buffer.flush()
                position = offset
            while source is not None and marks and marks[0][0] < position:
                _, step, done = marks.pop(0)
                copy_checkpoint(step, source / "checkpoints", target / "checkpoints", done=bool(done))
            wait = started + seconds / speed - time.monotonic()
            if wait > 0:
                time.sleep(min(wait, MAX_WAIT_S))
    for name in ("metrics.jsonl", "program.json"):
        if source is not None and (source / name).is_file():
            shutil.copy2(source / name, target / name)
    return int(job["exit_code"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
