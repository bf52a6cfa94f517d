"""The wording of each surface, in one file per surface; `python -m tests.wording.surfaces` renews them.

The files hold the comparisons of the last night of the example logs, which has every verdict, a death and a change of
the model's size; and the sentences of the tests that use the fixture `wording` (`sentences.py`).
"""

import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from tasks.diff.compare_logs import archive, compare_pair
from tasks.ingest.given_logs import LoggedArms, read_arms
from tasks.publish.markdown.artifacts import summary_markdown
from tasks.publish.terminal.report import print_comparison, render_details
from tasks.records.compared_case import ComparisonRecord
from tasks.store.store import Store
from tests.example.example_logs import NIGHTS, ExamplePair, example_pairs
from tests.wording.sentences import RENEWING, ROOT

FOLDER = Path(__file__).parent
COLUMNS = 80  # characters of the terminal
TOOK_S = 150.0


def compare_last_night(folder: Path) -> Iterator[ComparisonRecord]:
    """Yield the comparisons of the last night of the example logs. folder: an empty folder for logs and store."""
    for pair in example_pairs():
        if pair.night == NIGHTS - 1:
            yield compare_pair_of(pair, folder)


def compare_pair_of(pair: ExamplePair, folder: Path) -> ComparisonRecord:
    sides = []
    for side, texts in zip("ab", pair.logs, strict=True):
        files = [folder / f"{pair.comparison}-{pair.case}-{side}{number}.txt" for number in range(len(texts))]
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)
        sides.append([(file, False) for file in files])
    read = read_arms(*sides)
    arms = LoggedArms(names=pair.names, baseline=read.baseline, candidate=read.candidate)
    record = compare_pair(archive(arms, Store(folder / "out")), case=pair.case, aa=False, target="example")
    return record.replace(comparison=pair.comparison, took_s=TOOK_S)


def write_surfaces() -> dict[str, str]:
    """Return file name → text of each surface, without paths of this machine."""
    with tempfile.TemporaryDirectory() as folder:
        records = list(compare_last_night(Path(folder)))
        terminal, details = io.StringIO(), io.StringIO()
        for record in records:
            console = Console(file=terminal, width=COLUMNS, color_system=None)
            print_comparison(console, record, page="file:///index.html")
            Console(file=details, width=COLUMNS, color_system=None).print(render_details(record))
        texts = {
            "terminal.txt": terminal.getvalue(),
            "details.txt": details.getvalue(),
            "summary.md": "\n\n".join(f"# {one.comparison} {one.case}\n\n{summary_markdown(one)}" for one in records),
        }
        drop = re.compile(rf"\(data:image[^)]*\)|{re.escape(folder)}|[ \t]+$", re.MULTILINE)
    # README's commands begin with `uv run` where maxview runs under uv
    texts = {name: text.replace("uv run maxview", "maxview") for name, text in texts.items()}
    return {name: drop.sub("", text).strip() + "\n" for name, text in texts.items()}


def renew_sentences() -> int:
    """Run the tests that use the fixture `wording`, each file of them, and return pytest's exit code."""
    files = [
        str(path) for path in (ROOT / "tests").rglob("test_*.py") if "wording(" in path.read_text(encoding="utf-8")
    ]
    argv = [sys.executable, "-m", "pytest", "-n", "0", "-q", *sorted(files)]
    return subprocess.run(argv, cwd=ROOT, env=os.environ | {RENEWING: "1"}, check=False).returncode


if __name__ == "__main__":
    for name, text in write_surfaces().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    sys.exit(renew_sentences())
