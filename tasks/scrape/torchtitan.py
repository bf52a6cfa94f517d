"""Reads torchtitan's logs, coloured or not, into a RunReading."""

import re
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from tasks.records import CheckpointEvent, Coverage, Environment, Parameters, RunReading, UnreadLine
from tasks.scrape.ranks import is_glued, iso_of, rank_of, time_before
from tasks.scrape.row_table import frame_of, gaps_between, rewinds_in, usual_jump
from tasks.scrape.stalls import find_stalls
from tasks.scrape.tracebacks import RankTracebacks
from tasks.scrape.window import Window

FORMAT = "torchtitan"
UNREAD_SHOWN = 20
# torchtitan/components/metrics.py, MetricsProcessor.log; early versions have no tflops, grad_norm came in 2025
_ROW = re.compile(rb"(?<!validate )(?<!\w)step: ( {0,8}\d{1,15})(?:/\d+ = [\d.]+%)?(?=  [a-z])")
# what stands in every row: without a step before it, it is a row that lost one
_BODY = re.compile(rb"\bloss:\s{1,9}-?\d[\d.]{0,20}\s{1,9}(?:grad_norm|memory):|\)\s{1,9}tps:\s{1,9}\d")
_VALIDATE = re.compile(rb"validate step: +(\d{1,15})(?=  [a-z])")
# fields stand two spaces apart, so that one that lost its end is not followed by two
_FIELD = re.compile(rb"  ([a-z][\w./]{0,59}):( {0,9}[^\s:]{1,60})(?=  [a-z]|\s|\Z)")
_NUMBER = rb"[-+]?(?:(?:[1-9]\d{0,2}(?:,\d{3})+|0|[1-9]\d*)(?:\.(\d+))?(?:[eE][-+]?\d+)?|nan|inf)"
_PLAIN = re.compile(_NUMBER + rb"(%|s)?", re.IGNORECASE)
# {:8.5f}, earlier {:7.4f}; {:7.4f}; {:5.2f}: as wide as a digit, a sign and a point before the decimals are, and so is
# what is no number
_DECIMALS = {"loss": (4, 5), "grad_norm": (4,), "memory": (2,), "tflops": (2,), "mfu": (2,), "tps": (0,), "wps": (0,)}
WHOLE_WIDTH = 3  # a digit, a sign and a point
_PADDED = frozenset({"loss", "grad_norm", "memory"})
_THOUSANDS = frozenset({"tps", "wps", "tflops"})
_MEMORY = re.compile(rb"((?:0|[1-9]\d{0,8})\.\d\d)GiB\(((?:0|[1-9]\d{0,8})\.\d\d)%\)")
_NAMED = {"tflops": "tflops_per_device", "tps": "tokens_per_s_per_device", "elapsed_time_per_step": "seconds",
          "step_time": "seconds"}  # fmt: skip
KNOWN = frozenset({"loss", "grad_norm", "memory", "tps", "tflops", "mfu", "elapsed_time_per_step", "step_time", "wps"})
_PATTERNS = {
    "parameters": rb"Model [^\n]{1,120}?size: ([\d,]+) total parameters",
    "capacity": rb"(?:CUDA|GPU|XPU|HPU|NPU|ROCM|\b\w{1,20}) capacity: ([^\n]{1,120}?) with ([\d.]+)GiB memory",
    "mesh": rb"Building \d+-D device mesh with \[([^\]\n]{0,500})\], \[([\d, ]{0,200})\]",
    "saving": rb"Saving (?:a|the) (?:[\w ]+ )?checkpoint\b(?:[^\n]{0,80}?step (\d+))?",
    "saved": rb"Finished saving the checkpoint(?: \(or staging if async is enabled\))? ?in (\d+\.\d+) seconds",
    # never asynchronous
    "saved_last": rb"Last step checkpoint completed in (\d+\.\d+)s",
    "loading": rb"Loading the checkpoint (?:from|at step) ([^\s]+?)\.?(?=\s)",
    "started": rb"Training starts at step:? (\d+)",
    "completed": rb"Training completed\b",
    "exit_code": rb"EXIT_CODE=(\d{1,3})(?!\d)",
}
_ANCHORS = {name: re.compile(pattern) for name, pattern in _PATTERNS.items()}
_DATE = re.compile(rb"(?:\[titan\] |(?m:^)|:)(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:,\d{3})?) - ")


type Form = tuple[tuple[str, int | None], ...]  # the keys, and the decimals of their numbers

FEW = 20
ROW_LENGTH = 400
FORMS_MOST, KEYS_MOST = 400, 400  # more than any trainer prints; each key is a column of the table


class TorchtitanReader:
    """Takes in the windows of one log; `finish` puts together what was found."""

    def __init__(self) -> None:
        self.rows_of: dict[int | None, list[dict[str, Any]]] = {}  # by the rank that printed them
        self.evals: list[dict[str, Any]] = []
        self.unread: list[UnreadLine] = []
        self.tracebacks = RankTracebacks()
        self.facts: dict[str, Any] = {}
        self.checkpoints: list[CheckpointEvent] = []
        self.parameters = Parameters()
        self.environment = Environment()
        self._glued: set[int] = set()
        self._keys: dict[str, None] = {}
        self._before: tuple[str, ...] = ()
        self._forms: dict[Form, list[tuple[int, UnreadLine]]] = {}  # the first rows of each: step and place
        self._rows: list[int] = []  # where the rows of the current window start
        self._copies = 0  # rows of ranks without a prefix
        self._decimals: dict[str, int] = {}
        self._started: str | None = None
        self._exit_code: int | None = None
        self._ended = self._cut = False

    def feed(self, window: Window) -> None:
        """Take in the next window."""
        if self._started is None and (date := _DATE.search(window.data, window.start)):
            self._started = iso_of(date[1])
        self._rows = [-ROW_LENGTH]
        hits = [
            (match.start(), name, match)
            for name, pattern in (("row", _ROW), ("validate", _VALIDATE), *_ANCHORS.items())
            for match in pattern.finditer(window.data, window.start)
            if match.start() < window.limit
        ]
        for _, name, match in sorted(hits, key=lambda hit: hit[:2]):
            if name in ("row", "validate"):
                self._read_row(window, match, name)
            else:
                self._note(name, match, window)
        self._find_headless(window)
        self.tracebacks.take(window, max(self._rows[-1], 0))
        if window.last:
            self._cut |= bool(window.data) and not window.data.endswith(b"\n")

    def _find_headless(self, window: Window) -> None:
        """Count the rows that lost their step; what stands soon after a step is that row's own."""
        for match in _BODY.finditer(window.data, window.start + ROW_LENGTH if window.base else window.start):
            if match.start() >= window.limit:
                break
            before = self._rows[bisect_left(self._rows, match.start()) - 1]
            if match.start() - before >= ROW_LENGTH or b"\n" in window.data[before : match.start()].rstrip():
                source = window.source(match.start())
                text = window.data[match.start() : match.start() + 200].split(b"\n")[0].decode("utf-8", "replace")
                self.unread.append(UnreadLine(line=source.line, offset=source.offset, text=text))
                self._rows.insert(bisect_left(self._rows, match.start()), match.start())
        self.unread.sort(key=lambda line: line.offset)

    def finish(self, *, name: str, span: tuple[int, int]) -> RunReading:
        """The reading of the log that filled the byte range `span` of its file."""
        rows = self._choose_rows()
        steps = frame_of(rows)
        last_step = max((rows[-1]["offset"] for rows in self.rows_of.values()), default=-1)
        error = self.tracebacks.cause(last_step=last_step, exit_code=self._exit_code)
        ended = self._ended or error is not None
        numbers = [row["step"] for row in rows]
        parsed = sum(len(printed) for printed in self.rows_of.values()) + self._copies
        truncated = self._cut and not ended
        return RunReading(
            name=name,
            format=FORMAT,
            exit_code=self._exit_code,
            started=self._started,
            error=error,
            steps=steps,
            evals=tuple(self.evals),
            environment=self.environment,
            parameters=self.parameters,
            checkpoints=tuple(self.checkpoints),
            stalls=find_stalls(steps, saving=self._saving, eval_offsets=[row["offset"] for row in self.evals]),
            ranks=tuple(
                {"rank": rank, "rows": len(printed), "last_step": printed[-1]["step"]}
                for rank, printed in self.rows_of.items()
                if rank is not None
            ),
            facts=self.facts,
            span=span,
            coverage=Coverage(
                step_lines_seen=parsed + len(self.unread),
                step_lines_parsed=parsed,
                gaps=self._gaps(numbers),
                rewinds=rewinds_in(numbers),
                glued_lines=len(self._glued),
                truncated=truncated,
                unknown_keys=tuple(sorted(key for key in self._keys if key not in KNOWN)),
                complete=ended and not self.unread and not truncated,
                unread=tuple(self.unread[:UNREAD_SHOWN]),
            ),
        )

    def _choose_rows(self) -> list[dict[str, Any]]:
        """The rows of one rank. Stages of a pipeline that do not see the loss print −1: theirs come last."""
        self._take_back_odd()
        ranked = [
            rows
            for _, rows in sorted(
                self.rows_of.items(),
                # a rank that is known before the lines that lost theirs
                key=lambda item: (all(row["loss"] == -1 for row in item[1]), -len(item[1]), item[0] is None),
            )
        ]
        if not ranked:
            return []
        # a line that lost its rank is somebody's
        steps = {row["step"] for row in ranked[0]}
        lost = [row for row in self.rows_of.get(None, []) if row["step"] not in steps] if None in self.rows_of else []
        return sorted([*ranked[0], *lost], key=lambda row: row["offset"]) if lost else ranked[0]

    def _gaps(self, numbers: list[int]) -> tuple[tuple[int, int], ...]:
        """What the rows of the chosen rank leave out: between them, behind the first, and what another rank has."""
        rest = numbers[1:] if numbers[:1] == [1] else numbers  # the first is always printed, then every log_freq-th
        gaps, every = list(gaps_between(rest)), usual_jump(rest)
        if len(rest) < len(numbers) and every and rest[0] > max(every, 2):
            gaps.append((max(every, 2), rest[0] - every))
        others = {row["step"] for rows in self.rows_of.values() for row in rows}.difference(numbers)
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
        fits = _fitting(trusted)
        odd = [form for form in self._forms if form not in trusted and not fits(form)]
        places = [place for form in odd for _, place in self._forms.pop(form)]
        gone = {place.offset for place in places}
        if not gone:
            return
        self.unread = sorted([*self.unread, *places], key=lambda line: line.offset)
        self.rows_of = {
            rank: kept for rank, rows in self.rows_of.items() if (kept := [r for r in rows if r["offset"] not in gone])
        }
        self._keys = dict.fromkeys(key for form in self._forms for key, _ in form)

    def _read_row(self, window: Window, match: re.Match[bytes], kind: str) -> None:
        self._rows.append(match.start())
        source = window.source(match.start())
        fields: list[tuple[str, bytes]] = []
        end = match.end()
        seen = {b"step"}
        while (field := _FIELD.match(window.data, end)) and field[1] not in seen:  # a key twice is of another row
            seen.add(field[1])
            fields.append((field[1].decode("utf-8", "replace"), field[2]))
            end = field.end()
        values = self._values(fields, is_last=window.last and end == len(window.data))
        # {:2}: a step of two digits and more is not padded
        padded = kind == "row" and (len(match[1]) < 2 or (len(match[1]) > 2 and match[1].startswith(b" ")))
        rest = window.data[end : end + 200].split(b"\n")[0].strip()
        keys = tuple(key for key, _ in fields)
        ends_early = kind == "row" and keys != self._before and self._before[: len(keys)] == keys
        text = window.data[match.start() : match.start() + 200].split(b"\n")[0].decode("utf-8", "replace")
        begin = UnreadLine(line=source.line, offset=source.offset, text=text)
        form = _form_of(fields)
        new = kind == "row" and form not in self._forms
        too_many = new and (len(self._forms) == FORMS_MOST or len(self._keys.keys() | keys) > KEYS_MOST)
        if values is None or "loss" not in values or rest or ends_early or padded or too_many:
            self.unread.append(begin)
            self._cut |= window.last and window.is_last_line(match.start())
            return
        if is_glued(window.data, match.start()):
            self._glued.add(source.line)
        place = {"time": time_before(window, match.start()), "line": source.line, "offset": source.offset}
        row = {"step": int(match[1]), **values, **place}
        if kind == "row":
            self._keys.update(dict.fromkeys(keys))
            self._before = keys
            first = self._forms.setdefault(form, [])
            if len(first) < FEW:
                first.append((row["step"], begin))
            rank = rank_of(window.data, match.start())
            rows = self.rows_of.setdefault(rank, [])
            if rank is None and rows and rows[-1]["step"] == row["step"]:
                self._copies += 1
            else:
                rows.append(row)
        else:
            self.evals.append(row)

    def _values(self, fields: list[tuple[str, bytes]], *, is_last: bool) -> dict[str, Any] | None:
        """The fields by the names of the step table; None if one is damaged, or if the end may have cut the last."""
        values: dict[str, Any] = {}
        for index, (key, printed) in enumerate(fields):
            text = printed.strip()
            if text in (b"N/A", b"--"):
                values[_NAMED.get(key, key)] = None
                continue
            memory = _MEMORY.fullmatch(text) if key == "memory" else None
            plain = _PLAIN.fullmatch(text) if key != "memory" else None
            if key in values or (memory is None and plain is None) or not _is_usual(key, printed):
                return None
            if memory:
                values |= {"memory_gib": float(memory[1]), "memory_pct": float(memory[2])}
            elif plain:
                decimals = len(plain[1] or b"")
                # `mfu: 0.23%` and `5.1s` say themselves that they are whole; others have the decimals they always have
                if index == len(fields) - 1 and not plain[2] and is_last and decimals != self._decimals.get(key):
                    return None
                self._decimals[key] = decimals
                values[_NAMED.get(key, key)] = float(text.rstrip(b"%s").replace(b",", b""))
        return values

    def _note(self, name: str, match: re.Match[bytes], window: Window) -> None:
        source = window.source(match.start())
        place = {"line": source.line, "offset": source.offset}
        match name:
            case "parameters":
                text = match[1].decode()
                self.parameters = Parameters(count=int(text.replace(",", "")), printed=text, source=source)
            case "capacity":
                kind = match[1].decode("utf-8", "replace")
                self.environment = self.environment.model_copy(update={"device_kind": kind})
                self.facts.setdefault("device_memory_gib", {"value": float(match[2]), **place})
            case "mesh":
                names = re.findall(r"\w+", match[1].decode("utf-8", "replace"))
                sizes = [int(size) for size in re.findall(rb"\d+", match[2])]
                mesh = {axis: size for axis, size in zip(names, sizes, strict=False) if size > 1}
                self.environment = self.environment.model_copy(update={"mesh": mesh or None})
            case "saving":
                step = int(match[1]) if match[1] else self._last_step()
                if not self.checkpoints or self.checkpoints[-1].step != step:  # of the last step it says more
                    self.checkpoints.append(CheckpointEvent(step=step, **place))
            case "saved" if self.checkpoints:
                # with asynchronous saves this line ends the staging only: it is no commit
                blocked = {"blocking_s": float(match[1])}
                self.checkpoints[-1] = self.checkpoints[-1].model_copy(update=blocked)
            case "saved_last" if self.checkpoints:
                whole = {"blocking_s": float(match[1]), "committed": True, "committed_line": source.line}
                self.checkpoints[-1] = self.checkpoints[-1].model_copy(update=whole)
            case "loading":
                self.facts.setdefault("restored_from", {"value": match[1].decode("utf-8", "replace"), **place})
            case "started":
                self.facts.setdefault("first_step", {"value": int(match[1]), **place})
            case "completed":
                self._ended = True
            case "exit_code":
                self._exit_code, self._ended = int(match[1]), True

    def _last_step(self) -> int:
        return max((rows[-1]["step"] for rows in self.rows_of.values()), default=0)

    def _saving(self, begin: int, end: int) -> bool:
        return any(begin <= event.offset < end for event in self.checkpoints)


def _form_of(fields: list[tuple[str, bytes]]) -> Form:
    return tuple((key, _decimals(key, text)) for key, text in fields)


def _decimals(key: str, printed: bytes) -> int | None:
    """How many decimals a number has, or has room for; None where it does not show."""
    text = printed.strip()
    plain = _PLAIN.fullmatch(text)
    if plain is None:
        return 2 if _MEMORY.fullmatch(text) else None
    if plain[0][-2:-1].isdigit() or plain[0][:1].isdigit():
        return len(plain[1] or b"")
    return len(printed) - 1 - WHOLE_WIDTH if key in _PADDED else None


def _fitting(trusted: list[Form]) -> Callable[[Form], bool]:
    """Tells whether a form differs from one of the trusted only where a number is none."""
    known: dict[str, set[int]] = {}
    for key, decimals in (pair for other in trusted for pair in other):
        if decimals is not None:
            known.setdefault(key, set()).add(decimals)

    def fits_into(form: Form, other: Form) -> bool:
        return len(form) == len(other) and all(
            key == named and (decimals in (usual, None) or (usual is None and decimals in known.get(key, {decimals})))
            for (key, decimals), (named, usual) in zip(form, other, strict=True)
        )

    return lambda form: any(fits_into(form, other) for other in trusted)


def _is_usual(key: str, printed: bytes) -> bool:
    """Whether a number is printed as every version does; one that lost a digit is not, if it is padded."""
    if not printed.startswith(b" "):
        return False
    number = printed[1:].split(b"GiB")[0]
    digits = number.strip()
    if digits.endswith(b"s") and key in _PADDED | _THOUSANDS | {"mfu"}:
        return False  # none of these is a time
    if not digits[-1:].isdigit() and not digits.endswith(b"%"):  # no number
        return key not in _PADDED or len(number) - WHOLE_WIDTH in _DECIMALS[key]
    if key in _THOUSANDS | {"mfu"} and number.startswith((b" ", b"-")):
        return False  # they are neither padded nor negative
    whole, _, fraction = digits.rstrip(b"%").partition(b".")
    if key in _DECIMALS and len(fraction) not in _DECIMALS[key]:
        return False
    if key in _THOUSANDS and b"," not in whole and len(whole) > 3:
        return False
    if key not in _PADDED:
        return True
    width = len(fraction) + WHOLE_WIDTH
    return len(number) >= width and (len(number) == width or not number.startswith(b" "))
