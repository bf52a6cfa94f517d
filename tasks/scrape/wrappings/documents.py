"""Finds logs in documents: the two logs and the case of a saved MaxView page, and log excerpts in a Markdown guide.

A MaxView page compares the logs of two arms (versions of the trainer) in one case (a model and its settings).
"""

import re

from configs.frozen import Frozen
from tasks.scrape.dialects import MAXTEXT, recognise
from tasks.scrape.window import Chunks, LogFormatError, text_of
from tasks.scrape.wrappings.unpack import head_of

WHOLE_UP_TO = 64 << 20  # limit of bytes of a document, which is read into memory
HEAD_BYTES = 16 << 10  # bytes that contain a page's title and the head of its table
_GAP = r"[\s\u00a0]"
_TITLES = (
    # a page copied from the browser: `Metrics: Linen vs NNX  ·  main` (commits in the table's head), or, for two
    # branches, `Metrics: main (574ad3fb9) vs feat/x (e27fc1e97)`
    re.compile(
        rf"Metrics:{_GAP}+(?P<a>\S[^\n]*?){_GAP}+vs{_GAP}+(?P<b>[^\n]*?)(?:{_GAP}+·{_GAP}+(?P<branch>\S+))?\s*$", re.M
    ),
    # another form of the page of two branches: `main (574ad3fb9) vs feat/x (574ad3fb9)| Metric | …`
    re.compile(r"^(?P<a>\S+ \([0-9a-f]{6,40}\)) vs (?P<b>\S+ \([0-9a-f]{6,40}\))(?P<branch>)", re.M),
)  # fmt: skip
_BRANCH = re.compile(rf"(\S+){_GAP}+\(([0-9a-f]{{6,40}})\)")
# the case's name, between links to the cases before and after it
_CASE = re.compile(r"^‹\s*\w*?Case:\s*(\d\d_\w+?)(?:\d\d_\w+)?\s*›\s*$", re.M)
# the case in a path, for pages without the links: `…/linen_xpk_main_20260418_180002_03_dropout/checkpoints`
_CASE_OF_PATH = re.compile(rb"/[\w.-]*?_(\d\d_[a-z]\w*)/checkpoints\b")
_DOT = rb"(?:\s|\xc2\xa0)+\xc2\xb7(?:\s|\xc2\xa0)+"
# start of a log: its heading on the page, `Linen · 147168c3a · main_20260417 · full log`, or its own first line
_BEGIN = re.compile(
    rb"(?P<head>(?:^(?P<name>[^\n\xc2]{1,80}?)%s)?(?P<commit>\b[0-9a-f]{7,40})%s\S+%sfull log[ \t\r]*\n?)"
    rb"(?:[^X]{0,2}XPK Start: )?|XPK Start: " % (_DOT, _DOT, _DOT), re.M,
)  # fmt: skip

_FENCE = re.compile(rb"^[ \t]*(?:```|~~~)[^\n]*\n?", re.MULTILINE)
_LINE = re.compile(rb"[^\n]*completed step: (\d+)[^\n]*")


class PageLog(Frozen):
    """One arm's log on a page."""

    name: str  # the arm's name on the page
    branch: str | None
    commit: str | None
    span: tuple[int, int] = (0, 0)  # the log's byte range; (0, 0) before it is found


def find_document(text: Chunks) -> bytes | None:
    """Return the bytes of a text that may be a document (page, guide); None for other and for too large texts."""
    head = head_of(text)
    if not is_page(head) and b"```" not in head and b"~~~" not in head:
        return None
    data = b""
    for chunk in text():
        data += chunk
        if len(data) > WHOLE_UP_TO:
            return None
    return data


def is_page(data: bytes) -> bool:
    """Whether a text begins like a saved MaxView page."""
    head = text_of(data[:HEAD_BYTES])
    return "Metric" in head and "Diff (" in head and any(title.search(head) for title in _TITLES)


def read_page(data: bytes, name: str) -> tuple[list[PageLog], str | None]:
    """Return the page's logs and its case (None if unknown). Raises LogFormatError if an arm has no log."""
    head = text_of(data[:HEAD_BYTES])
    arms = _read_arms(head)
    logs = _find_logs(data, arms)
    if len(logs) < len(arms):
        raise LogFormatError(
            f"{name}: has {len(logs)} of the logs of {' and '.join(arm.name for arm in arms)}; open both logs "
            "on the page and save it again, or give the two logs as files (maxview ingest BASELINE.log CANDIDATE.log)"
        )
    cases = {match[1].decode() for match in _CASE_OF_PATH.finditer(data)}
    case = _CASE.search(head)
    return logs, case[1] if case else cases.pop() if len(cases) == 1 else None


def _read_arms(head: str) -> list[PageLog]:
    """Read the two arms from the title and the table's head."""
    title = next(match for pattern in _TITLES if (match := pattern.search(head)))
    names = [title["a"].strip(), title["b"].strip()]
    named = [match for name in names if (match := _BRANCH.fullmatch(name))]
    if len(named) == len(names):
        return [PageLog(name=match[1], branch=match[1], commit=match[2]) for match in named]
    # The copied cells have no borders: `MetricLinen  29bbe47edNNX  29bbe47edDiff`. A commit ends where the next arm's
    # name begins, which may begin with hexadecimal letters too.
    cells = rf"{_GAP}+([0-9a-f]{{6,40}}?)".join([*map(re.escape, names), r"Diff \("])
    found = re.search(f"^Metric{cells}", head, re.M)
    commits = found.groups() if found else (None, None)
    return [
        PageLog(name=name, branch=title["branch"], commit=commit) for name, commit in zip(names, commits, strict=True)
    ]


def _find_logs(data: bytes, arms: list[PageLog]) -> list[PageLog]:
    """Return the arms that have a log, found by the arm's name in a log's heading, else by the order of the logs."""
    names = [arm.name for arm in arms]
    begins = list(_BEGIN.finditer(data))
    ends = [*(match.start() for match in begins[1:]), len(data)]
    logs: dict[int, PageLog] = {}
    for found, end in zip(begins, ends, strict=False):  # `ends` has an item even if `begins` is empty
        begin = found.end("head") if found["head"] else found.start()
        if recognise(data[begin:end]) is None:
            continue
        shown = text_of(found["name"]).strip()
        named = [arm for arm, name in enumerate(names) if name == shown]  # both arms if they have the same name
        arm = next((arm for arm in named or range(len(arms)) if arm not in logs), None)
        if arm is not None:
            commit = found["commit"].decode() if found["commit"] else arms[arm].commit
            logs[arm] = arms[arm].replace(commit=commit, span=(begin, end))
    return [logs[arm] for arm in sorted(logs)]


def is_guide(data: bytes) -> bool:
    """Whether a text is Markdown whose step lines are all in fenced code blocks."""
    blocks, head = fenced_blocks(data), MAXTEXT.load().head
    inside = sum(len(head.findall(data, begin, end)) for begin, end in blocks)
    return inside > 0 and inside == len(head.findall(data))


def fenced_blocks(data: bytes) -> list[tuple[int, int]]:
    """Return the byte ranges of the fenced code blocks, without their fences."""
    fences = list(_FENCE.finditer(data))
    return [(a.end(), b.start()) for a, b in zip(fences[::2], fences[1::2], strict=False)]


def split_excerpts(data: bytes) -> list[tuple[bytes, tuple[int, int]]]:
    """Return (text, byte range) of every run in a guide. The text is `data`, blank outside of the run.

    Excerpts are the fenced code blocks. An excerpt begins another run if its first step is not larger than the last
    step before it. An excerpt is dropped if earlier excerpts contain all of its step lines.
    """
    runs: list[list[tuple[int, int]]] = [[]]
    last = -1
    quoted: set[bytes] = set()
    for begin, end in fenced_blocks(data):
        lines = [(match[0].strip(), int(match[1])) for match in _LINE.finditer(data, begin, end)]
        if lines and all(text in quoted for text, _ in lines):
            continue
        if lines:
            if lines[0][1] <= last:
                runs.append([])
            last = lines[-1][1]
            quoted.update(text for text, _ in lines)
        runs[-1].append((begin, end))
    return [(_blank_other_text(data, blocks), (blocks[0][0], blocks[-1][1])) for blocks in runs]


def _blank_other_text(data: bytes, blocks: list[tuple[int, int]]) -> bytes:
    """Return `data` with blanks outside of the blocks; line breaks stay, so offsets and line numbers stay too."""
    text = bytearray(re.sub(rb"[^\n]", b" ", data))
    for begin, end in blocks:
        text[begin:end] = data[begin:end]
    return bytes(text)
