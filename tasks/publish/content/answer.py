"""Picks what the top of a page shows: a short title, a sentence about all rows, the row that decides, what is next."""

import re
from collections.abc import Iterable, Sequence

from configs.schema import Frozen
from tasks.diff.compare_logs import INGEST
from tasks.diff.decide import show_duration
from tasks.diff.metric_row import NOT_JUDGED
from tasks.metrics.maxview_metrics import FINAL_LOSS
from tasks.metrics.result_metrics import LOSS
from tasks.metrics.table import METRICS
from tasks.metrics.time_metrics import STEP_TIME
from tasks.publish.content.effects import EffectLine
from tasks.publish.content.verdict_words import short_reason, word_of
from tasks.records import ComparisonRecord, MetricDiff
from tasks.records.text import shorten, visible

TITLE = 120  # characters: two lines on a screen
NAMED = 4  # rows of one verdict that the sentence names
FRAME = re.compile(r'File "([^"]+)", line (\d+)(?:, in (\S+))?')
COMMANDS = {
    "compare": "trains both arms of this case",
    "bisect": "finds the commit",
    "explain": "finds out why the two differ",
    "preflight": "compiles both arms for a TPU slice",
    "ingest": "reads further logs",
}  # by the name of the command
CURVES = {metric.name: metric.curve for metric in METRICS if metric.curve} | {FINAL_LOSS.name: LOSS.curve}


class Answer(Frozen):
    """What a reader sees first."""

    title: str
    sentence: str
    row: MetricDiff | None  # null where an arm died
    curve: str  # the figure that is drawn first
    cost: str  # of the next command; empty where it is not known
    does: str  # what the next command does


def answer_of(record: ComparisonRecord, effects: dict[str, EffectLine]) -> Answer:
    """The answer of a comparison; `effects` are the rows whose interval can be drawn."""
    row = None if record.has_died else find_deciding_row(record, effects)
    return Answer(
        title=shorten_title(visible(record.headline)),
        sentence=sum_up(record),
        row=row,
        curve=CURVES.get(row.metric, row.metric) if row else "",
        cost=tell_cost(record, row),
        does=describe_command(record),
    )


def find_deciding_row(record: ComparisonRecord, effects: Iterable[str]) -> MetricDiff | None:
    """The row that the verdict rests on: of the verdict's word, with an interval if there is one."""
    drawn = set(effects)
    judged = [row for row in record.rows if word_of(record, row) != NOT_JUDGED and not row.allowed]
    same_word = [row for row in judged if row.verdict == record.verdict] or judged

    def rank(row: MetricDiff) -> tuple[bool, bool, bool]:
        return row.metric not in drawn, row.metric != STEP_TIME.name, row.group == "maxview"

    return min(same_word, key=rank, default=None)


def shorten_title(headline: str) -> str:
    """The headline up to a clause that fits; the rest stands in the rows below."""
    if len(headline) <= TITLE:
        return headline
    ends = [end.start() for end in re.finditer(r"(?:[;:.] | \()", headline) if TITLE // 3 < end.start() <= TITLE]
    return headline[: max(ends)] if ends else shorten(headline, TITLE)


def sum_up(record: ComparisonRecord) -> str:
    """What agrees and what is open, in one sentence; of the open ones why."""
    if record.has_died:
        ended = [arm for arm in (record.baseline, record.candidate) if not arm.has_died]
        measured = f"the table has what {visible(ended[0].label)} measured" if ended else ""
        equal = [parity for parity in record.parities if parity.steps and parity.first is None]
        names = _list([visible(parity.metric) for parity in equal])
        steps = max((parity.steps for parity in equal), default=0)
        common = f"The {steps} steps before agree in {names}" if steps else "Nothing was compared" if ended else ""
        return f"{'; '.join(filter(None, (common, measured)))}." if common else ""
    alike = [visible(row.title) for row in record.rows if word_of(record, row) == "same"]
    open_rows = [row for row in record.rows if word_of(record, row) == "unknown"]
    parts = [f"{_list(alike)} {'agrees' if len(alike) == 1 else 'agree'}"] if alike else []
    if open_rows:
        own = next((row for row in open_rows if row.group == "ours"), open_rows[0])
        why = short_reason(own)
        names = _list([visible(row.title) for row in open_rows])
        parts.append(f"{names} {'is' if len(open_rows) == 1 else 'are'} open{f': {why}' if why else ''}")
    return "; ".join(parts) + "." if parts else ""


def tell_cost(record: ComparisonRecord, row: MetricDiff | None) -> str:
    """Return how long the next command takes: the cost of the runs that the row lacks, or the time of these runs."""
    seconds = sum(account.total_s for account in record.times)
    if not record.next_command.startswith(f"maxview compare {record.comparison} "):
        return ""  # it starts other runs than these, of unknown duration
    if row is not None and row.cost_text and "--until-decided" in record.next_command:
        return row.cost_text
    if not seconds:
        return ""
    if "--case all" in record.next_command:
        return f"about {show_duration(seconds)} per case"
    return f"about {show_duration(seconds)}" if f"--case {record.case} " in f"{record.next_command} " else ""


def describe_command(record: ComparisonRecord) -> str:
    """Return what the next command does, in a few words; empty for a command without a description."""
    command = record.next_command
    if record.comparison == INGEST and command.startswith("maxview compare "):
        return "trains this case here, in Linen and in NNX: the logged runs cannot be repeated from here"
    if record.has_died and command.startswith("maxview compare "):
        return "reuses the finished runs; the arm that died continues from its last checkpoint, or starts again"
    if "--case all" in command:
        return "trains both arms of every case"
    if "--until-decided" in command:
        return "trains both arms again and again until the verdict is sure"
    return next((does for name, does in COMMANDS.items() if command.startswith(f"maxview {name} ")), "")


def find_frame(lines: Sequence[str]) -> str:
    """The innermost place of a traceback in these lines of a log: `train_utils.py:217 in setup_train_loop`."""
    found = [match for line in lines for match in FRAME.finditer(line)]
    if not found:
        return ""
    path, line, function = found[-1].groups()
    return f"{'/'.join(path.split('/')[-3:])}:{line}" + (f" in {function}" if function else "")


def _list(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    listed = ", ".join(name.replace(",", "") for name in names[:NAMED])  # a comma in a name would part it in two
    return listed + (f" and {more} more" if more > 0 else "")
