"""Collects torchtitan's rows, of every rank its own, and keeps account of what could not be read."""

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any

from tasks.records import UnreadLine
from tasks.scrape.ranks import is_glued, rank_of, time_before
from tasks.scrape.row_table import gaps_between, usual_jump
from tasks.scrape.torchtitan_form import KNOWN, Form, fields_at, fitting, form_of, values_of
from tasks.scrape.window import Window

# torchtitan/components/metrics.py, MetricsProcessor.log; early versions have no tflops, grad_norm came in 2025
ROW = re.compile(rb"(?<!validate )(?<!\w)step: ( {0,8}\d{1,15})(?:/\d+ = [\d.]+%)?(?=  [a-z])")
# what stands in every row: without a step before it, it is a row that lost one
_BODY = re.compile(rb"\bloss:\s{1,9}-?\d[\d.]{0,20}\s{1,9}(?:grad_norm|memory):|\)\s{1,9}tps:\s{1,9}\d")
VALIDATE = re.compile(rb"validate step: +(\d{1,15})(?=  [a-z])")
FEW = 20
ROW_LENGTH = 400
FORMS_MOST, KEYS_MOST = 400, 400  # more than any trainer prints; each key is a column of the table


@dataclass
class RankRows:
    """The rows read so far. `starts` are those of the current window, ascending."""

    of_rank: dict[int | None, list[dict[str, Any]]] = field(default_factory=dict)  # by the rank that printed them
    evals: list[dict[str, Any]] = field(default_factory=list)
    unread: list[UnreadLine] = field(default_factory=list)
    glued: set[int] = field(default_factory=set)
    cut: bool = False  # the last row was cut off by the end of the text
    starts: list[int] = field(default_factory=list)
    _keys: dict[str, None] = field(default_factory=dict)
    _before: tuple[str, ...] = ()
    _forms: dict[Form, list[tuple[int, UnreadLine]]] = field(default_factory=dict)  # the first of each: step and place
    _copies: int = 0  # rows of ranks without a prefix
    _decimals: dict[str, int] = field(default_factory=dict)

    def begin(self) -> None:
        """Another window follows."""
        self.starts = [-ROW_LENGTH]

    @property
    def parsed(self) -> int:
        """How many rows were read."""
        return sum(map(len, self.of_rank.values())) + self._copies

    @property
    def last_step(self) -> int:
        """The last step of all ranks; 0 before the first."""
        return max((rows[-1]["step"] for rows in self.of_rank.values()), default=0)

    @property
    def last_offset(self) -> int:
        """Where the last row of all ranks stands; −1 before the first."""
        return max((rows[-1]["offset"] for rows in self.of_rank.values()), default=-1)

    @property
    def unknown_keys(self) -> tuple[str, ...]:
        """The keys that no known version of the trainer prints."""
        return tuple(sorted(key for key in self._keys if key not in KNOWN))

    def read(self, window: Window, match: re.Match[bytes], kind: str) -> None:
        """Take in a row, kind "row" or "validate", whose head is `match`."""
        self.starts.append(match.start())
        source = window.source(match.start())
        fields, end = fields_at(window.data, match.end())
        is_last = window.last and end == len(window.data)
        values = values_of(fields, is_last=is_last, decimals_of=self._decimals)
        # {:2}: a step of two digits and more is not padded
        padded = kind == "row" and (len(match[1]) < 2 or (len(match[1]) > 2 and match[1].startswith(b" ")))
        rest = window.data[end : end + 200].split(b"\n")[0].strip()
        keys = tuple(key for key, _ in fields)
        ends_early = kind == "row" and keys != self._before and self._before[: len(keys)] == keys
        text = window.data[match.start() : match.start() + 200].split(b"\n")[0].decode("utf-8", "replace")
        begin = UnreadLine(line=source.line, offset=source.offset, text=text)
        form = form_of(fields)
        new = kind == "row" and form not in self._forms
        too_many = new and (len(self._forms) == FORMS_MOST or len(self._keys.keys() | keys) > KEYS_MOST)
        if values is None or "loss" not in values or rest or ends_early or padded or too_many:
            self.unread.append(begin)
            self.cut |= window.last and window.is_last_line(match.start())
            return
        if is_glued(window.data, match.start()):
            self.glued.add(source.line)
        place = {"time": time_before(window, match.start()), "line": source.line, "offset": source.offset}
        row = {"step": int(match[1]), **values, **place}
        if kind == "row":
            self._keys.update(dict.fromkeys(keys))
            self._before = keys
            first = self._forms.setdefault(form, [])
            if len(first) < FEW:
                first.append((row["step"], begin))
            rank = rank_of(window.data, match.start())
            rows = self.of_rank.setdefault(rank, [])
            if rank is None and rows and rows[-1]["step"] == row["step"]:
                self._copies += 1
            else:
                rows.append(row)
        else:
            self.evals.append(row)

    def find_headless(self, window: Window) -> None:
        """Count the rows that lost their step; what stands soon after a step is that row's own."""
        for match in _BODY.finditer(window.data, window.start + ROW_LENGTH if window.base else window.start):
            if match.start() >= window.limit:
                break
            before = self.starts[bisect_left(self.starts, match.start()) - 1]
            if match.start() - before >= ROW_LENGTH or b"\n" in window.data[before : match.start()].rstrip():
                source = window.source(match.start())
                text = window.data[match.start() : match.start() + 200].split(b"\n")[0].decode("utf-8", "replace")
                self.unread.append(UnreadLine(line=source.line, offset=source.offset, text=text))
                self.starts.insert(bisect_left(self.starts, match.start()), match.start())
        self.unread.sort(key=lambda line: line.offset)

    def choose(self) -> list[dict[str, Any]]:
        """The rows of one rank. Stages of a pipeline that do not see the loss print −1: theirs come last."""
        self._take_back_odd()
        ranked = [
            rows
            for _, rows in sorted(
                self.of_rank.items(),
                # a rank that is known before the lines that lost theirs
                key=lambda item: (all(row["loss"] == -1 for row in item[1]), -len(item[1]), item[0] is None),
            )
        ]
        if not ranked:
            return []
        # a line that lost its rank is somebody's
        steps = {row["step"] for row in ranked[0]}
        lost = [row for row in self.of_rank.get(None, []) if row["step"] not in steps] if None in self.of_rank else []
        return sorted([*ranked[0], *lost], key=lambda row: row["offset"]) if lost else ranked[0]

    def gaps(self, numbers: list[int]) -> tuple[tuple[int, int], ...]:
        """What the rows of the chosen rank leave out: between them, behind the first, and what another rank has."""
        rest = numbers[1:] if numbers[:1] == [1] else numbers  # the first is always printed, then every log_freq-th
        gaps, every = list(gaps_between(rest)), usual_jump(rest)
        if len(rest) < len(numbers) and every and rest[0] > max(every, 2):
            gaps.append((max(every, 2), rest[0] - every))
        others = {row["step"] for rows in self.of_rank.values() for row in rows}.difference(numbers)
        gaps += [(step, step) for step in others if not any(first <= step <= last for first, last in gaps)]
        return tuple(sorted(gaps))

    def _take_back_odd(self) -> None:
        """Take back the only row of its form, where others came more than once: text was lost there."""
        trusted = [form for form, first in self._forms.items() if len({step for step, _ in first}) > 1]
        if not trusted:  # two lines that differ: a digit is lost more easily than it is won
            most = max((dict(form).get("loss") or 0 for form in self._forms), default=0)
            trusted = [form for form in self._forms if dict(form).get("loss") in (None, most)]
            every = {key for form in trusted for key, _ in form}
            trusted = [form for form in trusted if every <= {key for key, _ in form}] or trusted
        fits = fitting(trusted)
        odd = [form for form in self._forms if form not in trusted and not fits(form)]
        places = [place for form in odd for _, place in self._forms.pop(form)]
        gone = {place.offset for place in places}
        if not gone:
            return
        self.unread = sorted([*self.unread, *places], key=lambda line: line.offset)
        self.of_rank = {
            rank: kept for rank, rows in self.of_rank.items() if (kept := [r for r in rows if r["offset"] not in gone])
        }
        self._keys = dict.fromkeys(key for form in self._forms for key, _ in form)
