"""Compares trainers whose step is several functions with changed and rewritten copies of themselves, in float64.

    python -m benchmarks.whole_step [NAME]… [--folder FOLDER]

NAME selects the trainers of `benchmarks/loops` whose name contains it; FOLDER keeps the recordings. A change must be
called *another function* or *changed data*, a rewriting *same function*; *unknown* is no wrong word. Exit status: 1 if
a word is wrong.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ruamel.yaml import YAML

from benchmarks.machine import describe_machine
from tasks.experiments.function_figures import summarise_function
from tasks.experiments.recordings import SIDES
from tasks.experiments.same_data import compare_recorded
from tasks.experiments.same_function import evaluate_loops
from tasks.observe.recorder import prepare_recorder, read_observation

LOOPS = Path(__file__).parent / "loops"
BATCHES, STEPS = 12, 16


class Edit(NamedTuple):
    """A change of a trainer's text, or another trainer in its place."""

    what: str
    replaced: Sequence[Sequence[str]] = ()
    trainer: str = ""
    file: str = ""  # "": the trainer's own
    kind: str = "changed"


def read_pairs() -> dict[str, tuple[list[Edit], list[Edit]]]:
    """Return trainer → its changes, and its rewritings that compute the same."""
    found = YAML(typ="safe").load(LOOPS / "edits.yml")
    return {
        trainer: (
            [Edit(**one, kind="changed") for one in edits["changed"]],
            [Edit(**one, kind="rewritten") for one in edits["rewritten"]],
        )
        for trainer, edits in found.items()
    }


def write_trainer(folder: Path, trainer: str, edit: Edit | None) -> Path:
    """Copy the trainers into a folder, with the edit; return the trainer's file."""
    shutil.copytree(LOOPS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    script = folder / f"{(edit.trainer if edit else '') or trainer}.py"
    if edit is not None:
        file = folder / edit.file if edit.file else script
        text = file.read_text()
        for old, new in edit.replaced:
            assert text.count(old) == 1, (trainer, edit.what, old)
            text = text.replace(old, new)
        file.write_text(text)
    return script


def record(script: Path, folder: Path) -> None:
    """Record a trainer's loop into a folder."""
    folder.mkdir(parents=True)
    own = prepare_recorder(folder, {}, observe=True, batches=BATCHES, root=str(script.parent))
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", **own}
    with (folder / "log").open("w") as log:
        subprocess.run(
            [sys.executable, str(script), f"--steps={STEPS}"], env=environment, stdout=log, stderr=log, check=False
        )


def judge(folder: Path) -> tuple[str, str]:
    """Return the word of a pair, and its sentence. folder: with both recordings."""
    recordings = folder / SIDES[0], folder / SIDES[1]
    observations = read_observation(recordings[0]), read_observation(recordings[1])
    if any(one.step is None for one in observations):
        return "unknown", "; ".join(note for one in observations for note in one.notes)
    names = ("baseline", "candidate")
    found = evaluate_loops(observations, recordings, folder / "function.json", names, steps=STEPS, say=lambda _: None)
    function = summarise_function(found)
    said = function.evaluated or "the step alone"
    data = compare_recorded(folder, lambda _: None)
    text = f"{function.sentence}; {said}; {'; '.join(function.not_evaluated)}"
    if function.answer == "another":
        return "another", text
    if data is not None and data.kind == "other" and not data.are_equal:
        return "other data", f"{data.first}: {text}"
    return ("same" if function.answer == "same" and not function.not_evaluated else "unknown"), text


def main() -> int:
    """Print a line per pair, and the counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp())
    counts: Counter[tuple[str, str]] = Counter()
    print(describe_machine())
    for trainer, (changes, rewritings) in read_pairs().items():
        if args.names and not any(name in trainer for name in args.names):
            continue
        base = folder / trainer / "baseline"
        if not base.exists():
            record(write_trainer(folder / trainer / "source", trainer, None), base)
        for n, edit in enumerate((*changes, *rewritings)):
            began, place = time.monotonic(), folder / trainer / str(n)
            if not (place / SIDES[1]).exists():
                record(write_trainer(place / "source", trainer, edit), place / SIDES[1])
                (place / SIDES[0]).symlink_to(base.absolute())
            word, sentence = judge(place)
            counts[edit.kind, word] += 1
            spent = f"{time.monotonic() - began:5.1f} s"
            print(f"{trainer:16} {edit.kind:9} {edit.what:42} {word:10} {spent}  {sentence}", flush=True)
    print({f"{kind}, {word}": count for (kind, word), count in sorted(counts.items())})
    wrong = (("changed", "same"), ("rewritten", "another"), ("rewritten", "other data"))
    return int(any(counts[one] for one in wrong))


if __name__ == "__main__":
    sys.exit(main())
