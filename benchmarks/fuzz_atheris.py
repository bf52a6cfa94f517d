"""Fuzzes the readers with atheris, which looks for input that reaches code not reached before: no crash, no hang.

    uv pip install atheris        # no dependency of this project: it has no wheels for every platform
    python -m benchmarks.fuzz_atheris [--minutes 10] [--corpus FOLDER]

It begins with damaged logs of every dialect from `tests/fuzzing/logs.py` and changes their bytes; what reached
new code lies in the corpus's folder, what crashed in a `crash-…` file where it was started. Whether numbers are right
only `fuzz_scrape` can tell: here nobody knows what was written.
"""

import argparse
import importlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

from tasks.publish.log_lines import lines_of
from tasks.publish.reading_json import to_json
from tests.fuzzing.judge import read, texts_in
from tests.fuzzing.logs import make_example
from tests.fuzzing.specs import SPECS

SEEDS = 50  # logs of each dialect to begin with
HANG_S = 10
LONGEST = 20_000  # bytes


def try_bytes(data: bytes) -> None:
    """Read them as a file; anything but a reading or the documented refusal is raised."""
    reading = read(data)
    if reading is None:
        return
    to_json(reading)
    for text in texts_in(data):
        list(lines_of(text, 0))


def readers() -> Iterator[FunctionType]:
    """The functions and methods of `tasks.scrape`."""
    for name in [name for name in sys.modules if name.startswith("tasks.scrape")]:
        for value in vars(sys.modules[name]).values():
            if getattr(value, "__module__", None) != name:
                continue
            for member in [value, *(vars(value).values() if isinstance(value, type) else ())]:
                if isinstance(member, FunctionType) and member.__module__ == name:
                    yield member


def main() -> int:
    """Fuzz for some minutes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--corpus", type=Path)
    arguments = parser.parse_args()
    try:
        atheris = importlib.import_module("atheris")
    except ModuleNotFoundError:
        print("atheris is not installed; type: uv pip install atheris", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        corpus = arguments.corpus or Path(scratch)
        corpus.mkdir(parents=True, exist_ok=True)
        for spec in SPECS:
            for seed in range(SEEDS):
                (corpus / f"{spec.name}-{seed}").write_bytes(make_example(spec, seed).data)
        options = [f"-max_total_time={round(60 * arguments.minutes)}", f"-timeout={HANG_S}", f"-max_len={LONGEST}"]
        for function in readers():
            atheris.instrument_func(function)  # in place
        atheris.Setup([sys.argv[0], *options, str(corpus)], try_bytes)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
