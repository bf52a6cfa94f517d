"""Stands in for the training of a run: prints a stored log, and creates its checkpoints in the same order and rhythm.

`player.py FOLDER COMMAND…` runs the command, except for a training (`… -m model.train RUN/config.yml`): instead of it,
plays the log CASE/ARM-rREPEAT.txt, CASE/ARM.txt, ARM.txt or runs/CASE-ARM-rREPEAT-*/log.txt of FOLDER, and ends with
the log's exit code. At $REPLAY_SPEED 60, a minute of the log takes a second; by default it is printed at once. If
`checkpoints/` is beside the log, the files `metrics.jsonl` and `program.json` are copied as well, and the run's folder
replaces the stored run's folder in the text.
"""

import json
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
EXIT = re.compile(rb"^EXIT_CODE=(\d+)", re.MULTILINE)
ROOT = Path(__file__).parents[3]
TRAINING = ["-m", "model.train"]
MAX_WAIT_S = 86400.0  # a longer wait between two lines is shortened to this
YEAR = 2024  # stands for every year, because absl's dates have none; a leap year, so that 29 February is valid
HALF_A_YEAR = 180  # days


def find_times(data: bytes, begin: int, end: int) -> Iterator[tuple[float, int]]:
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


def find_log(folder: Path, case: str, arm: str, repeat: int) -> Path:
    """Return the stored log of a run."""
    names = (f"{case}/{arm}-r{repeat}.txt", f"{case}/{arm}.txt", f"{arm}.txt", f"runs/{case}-{arm}-r{repeat}-*/log.txt")
    return next(path for name in names for path in folder.glob(name))


def find_saves(text: bytes) -> tuple[list[tuple[int, int, bool]], str | None]:
    """Return (offset, step, whether committed) of each event of a save, and the stored run's folder in the text."""
    sys.path.insert(0, str(ROOT))
    from tasks.records.log_reading import CheckpointCommitted, CheckpointStarted
    from tasks.scrape.follow import LogFollower

    found = [e for e in LogFollower().feed(text) if isinstance(e, CheckpointStarted | CheckpointCommitted)]
    home = next((str(Path(event.path).parent.parent) for event in found if event.path), None)
    return sorted((event.offset, event.step, isinstance(event, CheckpointCommitted)) for event in found), home


def play(log: Path, target: Path, speed: float) -> int:
    """Print the log, create its checkpoints in the folder `target`, and return its exit code."""
    text = log.read_bytes()
    source = log.parent if (log.parent / "checkpoints").is_dir() else None
    marks, home = find_saves(text) if source else ([], None)
    started, position = time.monotonic(), 0
    stops = sorted((offset, seconds) for seconds, offset in find_times(text, 0, len(text)))
    for offset, seconds in [*stops, (len(text), 0.0)]:
        shown = _FRAME.sub(b"", text[position:offset])
        sys.stdout.buffer.write(shown.replace(home.encode(), str(target).encode()) if home else shown)
        sys.stdout.buffer.flush()
        position = offset
        while source is not None and marks and marks[0][0] < position:
            _, step, done = marks.pop(0)
            copy_checkpoint(step, source / "checkpoints", target / "checkpoints", done=done)
        wait = started + seconds / speed - time.monotonic()
        if wait > 0:
            time.sleep(min(wait, MAX_WAIT_S))
    for name in ("metrics.jsonl", "program.json"):
        if source is not None and (source / name).is_file():
            shutil.copy2(source / name, target / name)
    code = EXIT.search(text)
    return int(code[1]) if code else 0


def main(folder: str, *command: str) -> int:
    """Play the run's log, or run another command."""
    if not any(list(command[at : at + 2]) == TRAINING for at in range(len(command))):
        os.execv(command[0], command)
    target = next(Path(word).parent for word in command if word.endswith("/config.yml"))
    plan = json.loads((target / "plan.json").read_text())
    log = find_log(Path(folder), plan["case"], plan["arm"], plan["repeat"])
    return play(log, target, float(os.environ.get("REPLAY_SPEED", "inf")))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
