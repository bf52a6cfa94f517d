"""Turns a comparison into its marks: one verdict for each kind of evidence, for a line of the front page."""

from collections.abc import Iterable

from tasks.diff.judge.next_step import find_time_row
from tasks.metrics.result_metrics import FUNCTION, LOSS
from tasks.publish.content.verdict_words import FAMILIES, WORST_FIRST, without_sides
from tasks.records.compared_case import ComparisonRecord, Verdict

KINDS = ("program", "function", "time", "memory", "loss")
LETTERS: dict[Verdict, str] = {word: word[0] for word in WORST_FIRST}  # all differ
NONE = "-"  # letter of a kind that was not looked at
WORDS: dict[str, Verdict] = {letter: word for word, letter in LETTERS.items()}
# whether a floor holds (None: undecided) -> the verdict on its kind
OF_FLOOR: dict[bool | None, Verdict] = {True: "same", False: "changed", None: "unknown"}


def mark_comparison(record: ComparisonRecord) -> str:
    """Return a letter for each of KINDS: that of its verdict in LETTERS, or NONE."""
    record = without_sides(record)
    verdicts = {row.metric: row.verdict for row in record.rows}
    floors = {floor.name: OF_FLOOR[floor.holds] for floor in record.floors}
    time = find_time_row(record.rows, record.verdict)
    found: tuple[Verdict | None, ...] = (
        floors.get("same program"),
        verdicts.get(FUNCTION.name) or floors.get("same function"),
        time.verdict if time is not None else None,
        _worst(word for metric, word in verdicts.items() if metric in FAMILIES["Memory"]),
        verdicts.get(LOSS.name),
    )
    return "".join(NONE if word is None else LETTERS[word] for word in found)


def _worst(words: Iterable[Verdict]) -> Verdict | None:
    return min(words, key=WORST_FIRST.index, default=None)
