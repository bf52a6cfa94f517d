"""The page agrees with its record, every link has a target, and external text stays text."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tasks.publish.content.brief import make_brief, short_title
from tasks.publish.content.row_values import show_sides
from tasks.publish.content.verdict_words import MAX_CLAUSE_LENGTH, difference_text, group_rows, without_sides
from tasks.publish.page import curve_data
from tasks.publish.page.write_page import write_page
from tasks.records.checkpoint_proof import CheckpointEvent
from tasks.records.compared_case import ComparisonRecord, Curve, Evidence, Finding, MetricDiff
from tasks.records.measurement import EvidenceLine
from tasks.records.plan import CodeVersion, Commit
from tasks.records.run_end import LogError
from tasks.records.shared_fields import Source
from tasks.records.text import visible
from tasks.store.atomic import StoreError
from tests.wording.sentences import Wording

VOID = {"meta", "link", "img", "input", "br"}


@dataclass
class Element:
    """A tag of the page with its children, and all text inside."""

    tag: str
    attributes: dict[str, str]
    children: list["Element"] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join("".join(self.parts).split())

    def all(self, tag: str | None = None, **wanted: str) -> list["Element"]:
        """Return all inner elements with this tag whose attributes contain these words (`class_`, `data_label`, …)."""
        found = []
        for child in self.children:
            if (tag is None or child.tag == tag) and all(
                value in child.attributes.get(name.strip("_").replace("_", "-"), "").split(" ")
                for name, value in wanted.items()
            ):
                found.append(child)
            found += child.all(tag, **wanted)
        return found

    def one(self, tag: str | None = None, **wanted: str) -> "Element":
        (element,) = self.all(tag, **wanted)
        return element


class Reader(HTMLParser):
    """Parse a page into elements; fails unless every tag is closed in order."""

    def __init__(self, html: str):
        super().__init__()
        self.root = Element("", {})
        self._open = [self.root]
        self.feed(html)
        self.close()
        assert self._open == [self.root], f"not closed: {self._open[-1].tag}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, f"</{tag}> closes <{self._open[-1].tag}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.parts.append(data)


type Lines = dict[str, list[tuple[int, str]]]


def numbered(texts: list[str]) -> list[tuple[int, str]]:
    """Lines with their byte offsets in a separate file."""
    lengths = [len(text.encode()) + 1 for text in texts]
    return [(sum(lengths[:i]), text) for i, text in enumerate(texts)]


def read(page: Path) -> Element:
    return Reader(page.read_text(encoding="utf-8")).root


def data(root: Element) -> dict[str, Any]:
    return json.loads("".join(root.one("script", id="data").parts))  # type: ignore[no-any-return]


def called(file: Path, function: str) -> list[Any]:
    """The data that a file of the page passes to the page's script."""
    text = file.read_text(encoding="utf-8").strip()
    assert text.startswith(f"{function}(")
    assert text.endswith(");")
    return json.loads(f"[{text[len(function) + 1 : -2]}]")  # type: ignore[no-any-return]


def curve(folder: Path, number: int) -> list[dict[str, Any]]:
    """The traces of the page's curve with this number."""
    file = data(read(folder / "index.html"))["figures"][number]["file"]
    calls = (folder / f"curves/{file}.js").read_text(encoding="utf-8").splitlines()
    found = dict(json.loads(f"[{call.removeprefix('maxviewCurve(').removesuffix(');')}]") for call in calls)
    return found[number]  # type: ignore[no-any-return]


def log_lines(folder: Path, prefix: str, root: Element) -> dict[str, str]:
    """The lines of a log as shown by the page, by their anchors."""
    found = {}
    for number, (first, count) in enumerate(data(root)["logs"][prefix]["pieces"], start=1):
        name, place, text = called(folder / f"logs/{prefix}-{number}.js", "maxviewLog")
        lines = text.split("\n")
        assert (name, place, len(lines)) == (prefix, number, count)
        found |= {f"{prefix}-L{first + i}": line for i, line in enumerate(lines)}
    return found


def ids(root: Element) -> list[str]:
    return [element.attributes["id"] for element in root.all() if "id" in element.attributes]


def test_every_cell_of_the_table_equals_the_record(
    tmp_path: Path, record_002: ComparisonRecord, logs_002: Lines
) -> None:
    root = read(write_page(record_002, tmp_path, log_lines=logs_002))
    for row in without_sides(record_002).rows:
        line = root.one("tr", id=f"m-{row.metric}")
        assert line.one("th").text.startswith(short_title(row))
        cells = [line.one("td", data_label=side).text.replace("\u00a0", " ") for side in ("baseline", "candidate")]
        assert tuple(cells) == show_sides(row)
        exactly = f"{row.baseline_text} → {row.candidate_text} {row.unit}".rstrip()
        assert show_sides(row) == (row.baseline_text, row.candidate_text) or exactly in line.one("dl").text
        assert line.one("td", data_label="difference").text == difference_text(row)
        assert line.one("td", data_label="verdict").text.endswith(row.verdict)
        why = line.one("td", data_label="why")
        assert row.reason in [reported.text for reported in why.all("dd")]
        assert len(why.one("summary").text) <= MAX_CLAUSE_LENGTH
        if row.threshold_text:
            assert why.one("dd", class_="threshold").text == row.threshold_text


def test_a_threshold_without_words_has_the_unit_of_its_metric(
    tmp_path: Path, record_002: ComparisonRecord, make_row: Callable[..., MetricDiff]
) -> None:
    texts = ("0.076", "0.071", "-0.005")
    row = make_row("median_step", "Median step", texts, "improved", "", better="lower", threshold=0.0015, unit="s")
    root = read(write_page(record_002.replace(rows=(row,)), tmp_path, log_lines={}))
    assert root.one("tr", id="m-median_step").one("dd", class_="threshold").text == "±0.0015 s"


def test_the_verdict_the_arms_and_the_findings_are_in_words(
    tmp_path: Path, record_002: ComparisonRecord, logs_002: Lines
) -> None:
    root = read(write_page(record_002, tmp_path, log_lines=logs_002))
    verdict = root.one("section", class_="front")
    assert verdict.one("h1").text == make_brief(record_002).sentence
    assert root.one("header", class_="top").text.count("? unknown") == 1
    assert "unknown" not in verdict.text
    assert record_002.question in root.one("footer").text
    names = [" ".join(line.text.split()) for line in root.one("ul", id="compared").all("li")]
    arms = zip(("baseline", "candidate"), (record_002.baseline.ref, record_002.candidate.ref), strict=True)
    assert names[:2] == [f"{side} {ref} 574ad3fb9" for side, ref in arms]
    assert names[-1].startswith("compared from logs, at 20")
    assert root.all("title")[0].text.startswith("? unknown · 03_dropout")
    sides = root.one("section", id="sides")
    differing = {row.one("th").text: [cell.text for cell in row.all("td")] for row in sides.all("tr") if row.all("td")}
    assert differing["JAX"][:2] == ["0.9.2", "0.8.1"]
    assert differing["host process"][:2] == ["7", "0"]
    (equal,) = (line.text for line in sides.all("p"))
    for fact in ("574ad3fb9", "32 × TPU v6 lite", "fsdp 32", "2026-04-18 18:08:48 UTC", "10 of 10 step lines"):
        assert fact in equal
    weights = [row.all("td")[-1].text for row in sides.all("tr") if row.all("td")]
    assert weights == ["✗ blocks the verdict", *["! qualifies the verdict"] * 3]
    for row, found in zip(sides.all("tr")[1:], record_002.findings, strict=True):
        assert row.all("td")[2].text.endswith(found.message)  # a long one is behind its first clauses
    assert "First differing step: 4." in root.text
    assert [item.one("h3").text for item in root.one("ol", class_="floors").all("li")] == [
        "same program",
        "same bits",
        "same checkpoint",
    ]


def test_every_link_has_a_target(
    tmp_path: Path, record_000: ComparisonRecord, record_002: ComparisonRecord, logs_000: Lines, logs_002: Lines
) -> None:
    for record, lines in ((record_000, logs_000), (record_002, logs_002)):
        folder = tmp_path / record.case
        page = write_page(record, folder, log_lines=lines)
        (folder / "comparison.json").write_text("{}")  # written by the store
        root = read(page)
        known = ids(root)
        lines_there = {anchor for prefix in data(root)["logs"] for anchor in log_lines(folder, prefix, root)}
        assert len(known) == len(set(known))
        for element in root.all():
            target = element.attributes.get("href") or element.attributes.get("src")
            if target is None or target == "data:,":
                continue
            if re.match("#(baseline|candidate)-L", target):
                assert target[1:] in lines_there, target
            elif target.startswith("#"):
                assert target[1:] in known, target
            else:
                assert ":" not in target
                assert not target.startswith("/")
                assert (folder / target).is_file(), target
        for number in range(len(data(root)["figures"])):
            for trace in curve(folder, number):
                assert {f"{trace['side']}-L{line}" for line in trace["lines"]} <= lines_there


def test_curves_that_are_too_large_for_one_file_are_in_several(
    tmp_path: Path, record_002: ComparisonRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = read(write_page(record_002, tmp_path / "one", log_lines={}))
    monkeypatch.setattr(curve_data, "MAX_FILE", 1)
    write_page(record_002, tmp_path / "many", log_lines={})
    count = len(data(root)["figures"])
    assert [len(list((tmp_path / name / "curves").iterdir())) for name in ("one", "many")] == [1, count]
    assert count > 1
    for number in range(count):
        assert curve(tmp_path / "many", number) == curve(tmp_path / "one", number)


def test_a_value_links_to_its_line(tmp_path: Path, record_002: ComparisonRecord, logs_002: Lines) -> None:
    root = read(write_page(record_002, tmp_path, log_lines=logs_002))
    link = root.one("tr", id="m-final_loss").one("td", data_label="baseline").one("a")
    anchor = link.attributes["href"][1:]
    lines = log_lines(tmp_path, "baseline", root)
    assert "completed step: 9," in lines[anchor]
    assert data(root)["logs"]["baseline"]["values"][anchor.removeprefix("baseline-L")] == "Final loss, TFLOP/s, Tok/s"
    loss = curve(tmp_path, 0)[1]
    other = log_lines(tmp_path, "candidate", root)
    assert "completed step: 4," in other[f"candidate-L{loss['lines'][4]}"]
    assert (loss["steps"][4], loss["values"][4]) == (4, 8.458)


def test_the_logs_are_complete_with_their_own_line_numbers(
    tmp_path: Path, record_000: ComparisonRecord, logs_000: Lines, page_000: Any
) -> None:
    root = read(write_page(record_000, tmp_path, log_lines=logs_000))
    for side, arm in (("baseline", "Linen"), ("candidate", "NNX")):
        assert list(log_lines(tmp_path, side, root).values()) == [text for _, text in logs_000[arm]]
        assert (tmp_path / "logs" / f"{side}.txt").read_text().splitlines() == [text for _, text in logs_000[arm]]
    # both logs are in one file with common line numbers
    start = page_000.line("NNX", "XPK Start")
    assert next(iter(log_lines(tmp_path, "candidate", root))) == f"candidate-L{start}"
    folded = data(root)["logs"]["candidate"]["folds"]
    last = page_000.line("NNX", "NotImplementedError:")
    assert folded == [[start + 2, start + 4, log_lines(tmp_path, "candidate", root)[f"candidate-L{last}"]]]


def test_a_dead_arm_is_shown_with_its_cause(
    tmp_path: Path, record_000: ComparisonRecord, logs_000: Lines, wording: Wording
) -> None:
    root = read(write_page(record_000, tmp_path, log_lines=logs_000))
    death = root.one("section", id="death-candidate")
    wording("reasons", root.one("h1").text)
    cause = death.one("p", class_="cause")
    assert cause.text == log_lines(tmp_path, "candidate", root)[cause.one("a").attributes["href"][1:]]
    assert cause.text.startswith("NotImplementedError: ")
    assert "Traceback (most recent call last):" in death.one("pre").text
    for cell in root.one("section", id="metrics").all("td", class_="num"):
        assert cell.text, "a blank cell hides a dead run"
    assert [row.attributes["id"] for row in root.one("section", id="metrics").all("tr") if "id" in row.attributes] == [
        f"m-{row.metric}" for rows in group_rows(record_000).values() for row in rows if row.metric != "end"
    ]  # the first screen tells how it ended
    dead = root.one("tr", id="m-tflops_per_device").one("td", data_label="candidate")
    assert (dead.text, dead.one("a").attributes["href"]) == ("–, died", "#death-candidate")
    assert "Loss, Step time: NNX: " in root.one("section", id="curves").text


def test_a_page_without_logs_says_so(tmp_path: Path, record_002: ComparisonRecord) -> None:
    both: Lines = {record_002.baseline.name: [], record_002.candidate.name: []}
    nothing: list[Lines] = [{}, {"main": []}, both]
    for lines in nothing:
        root = read(write_page(record_002, tmp_path, log_lines=lines))
        assert root.one("section", id="logs").text.count("was not at hand") == 2
        assert not root.one("section", id="logs").all("input")
        assert not [one for one in root.all("p", class_="equal") if "logs" in one.text]
        assert root.one("tr", id="m-final_loss").one("td", data_label="baseline").text == "6.9810"
        links = [link.attributes["href"] for link in root.one("section", id="metrics").all("a")]
        assert set(links) == {"#m-step_time_s"}  # from single steps to the deciding row


def test_each_repeat_has_its_own_log_and_curve(tmp_path: Path, record_002: ComparisonRecord, logs_002: Lines) -> None:
    again = logs_002["main"]
    extra = [c.replace(run_name="again") for c in record_002.curves if c.arm == "main"]
    record = record_002.replace(
        baseline=record_002.baseline.replace(runs=(*record_002.baseline.runs, "again")),
        curves=(*record_002.curves, *extra),
    )
    root = read(write_page(record, tmp_path, log_lines={**logs_002, "main/again": iter(again)}))
    assert root.one("details", id="log-baseline-2")
    trace = next(t for t in curve(tmp_path, 0) if t["run"] == "again")
    assert f"baseline-2-L{trace['lines'][3]}" in log_lines(tmp_path, "baseline-2", root)


def test_with_repeats_each_value_links_to_the_log_of_its_run(
    tmp_path: Path, record_000: ComparisonRecord, logs_000: Lines
) -> None:
    good = numbered([f"padding {i}" for i in range(3)] + ["saving a checkpoint at step 0", "EXIT_CODE=0"])
    bad = numbered(["saving a checkpoint at step 0", "x" * 40, "RuntimeError: out of memory", "EXIT_CODE=1"])
    error, saves = bad[2][0], (good[3][0], bad[0][0])
    arm = record_000.candidate.replace(
        runs=("first", "second"),
        cause_of_death=LogError(type="RuntimeError", message="out of memory", line=3, offset=error, run=1),
        checkpoints=tuple(
            CheckpointEvent(step=0, line=line, offset=saves[run], run=run) for run, line in enumerate((4, 1))
        ),
    )
    ended = Source(line=4, offset=bad[3][0], run=1)
    finding = Finding(
        kind="missing-steps", effect="qualifies", message="?", evidence=(Evidence(arm="NNX", value="1", source=ended),)
    )
    row = next(row for row in record_000.rows if row.metric == "final_loss")
    rows = (row.replace(candidate_text="1", candidate_source=ended),)
    record = record_000.replace(candidate=arm, findings=(finding,), rows=rows)
    root = read(write_page(record, tmp_path, log_lines={"NNX/first": good, "NNX/second": bad}))
    cause = root.one("section", id="death-candidate").one("p", class_="cause").one("a")
    assert cause.attributes["href"] == "#candidate-2-L3"
    links = [cell.all("a") for cell in root.one("section", id="checkpoints").all("td", data_label="step")]
    assert [link.attributes["href"] for cell in links for link in cell] == ["#candidate-L4", "#candidate-2-L1"]
    metrics = root.one("section", id="metrics")
    assert "#candidate-2-L4" in [link.attributes["href"] for link in metrics.all("a")]
    alive = arm.replace(exit_code=0, cause_of_death=None)
    root = read(write_page(record.replace(candidate=alive), tmp_path, log_lines={"NNX/second": bad}))
    assert [link.attributes["href"] for link in root.one("section", id="sides").all("a")] == ["#candidate-2-L4"]


def test_a_death_has_its_cause_and_differences_instead_of_verdict_words(
    tmp_path: Path, record_000: ComparisonRecord
) -> None:
    root = read(write_page(record_000, tmp_path, log_lines={}))
    assert not root.all("button", data_rows="same")
    sides = root.one("section", id="sides").text
    assert "What differs between the two" in sides
    assert "exit code 0 → 1" in " ".join(sides.split())
    assert "verdict" not in sides
    assert "Equal on both sides" not in sides


def test_the_page_allows_no_network_and_only_its_own_script(tmp_path: Path, record_002: ComparisonRecord) -> None:
    root = read(write_page(record_002, tmp_path, log_lines={}))
    policy = root.one("meta", http_equiv="Content-Security-Policy").attributes["content"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert re.fullmatch(r"'self' file: 'sha256-[A-Za-z0-9+/=]{44}'", rules["script-src"])
    assert re.fullmatch(r"'sha256-[A-Za-z0-9+/=]{44}'", rules["style-src"])
    assert rules["img-src"] == "data:"
    assert not [element for element in root.all() if "style" in element.attributes]
    assert "http" not in policy


def test_external_text_stays_text_everywhere(
    tmp_path: Path, hostile_record: ComparisonRecord, hostile_logs: Lines
) -> None:
    page = write_page(hostile_record, tmp_path, log_lines=hostile_logs)
    html = page.read_text(encoding="utf-8")
    root = Reader(html).root
    scripts = root.all("script")
    assert [(s.attributes.get("type"), "src" in s.attributes) for s in scripts] == [
        ("application/json", False),
        (None, False),
    ]
    for element in root.all():
        assert not [name for name in element.attributes if name.startswith("on")]
        for name in ("href", "src"):
            assert re.match(r"#|data:,$|logs/|comparison\.json|$", element.attributes.get(name, ""))
    assert root.one("h1").text.startswith("not comparable: </script><script>window.owned=1")
    assert "{{ 7*7 }}" in root.one("h1").attributes["title"]  # in full: the headline itself is too long for two lines
    assert not [c for c in html if ord(c) < 32 and c not in "\n\t"]
    assert "\u202e" not in html
    assert "<" not in "".join(root.one("script", id="data").parts)


def test_undrawable_values_are_listed_beside_the_chart(tmp_path: Path, record_002: ComparisonRecord) -> None:
    def spoilt(given: Curve) -> Curve:
        return given.replace(values=(*given.values[:5], float("nan"), float("inf"), *given.values[7:]))

    record = record_002.replace(curves=tuple(map(spoilt, record_002.curves)))
    root = read(write_page(record, tmp_path, log_lines={}))
    assert re.search(r"main: .* at step 5 and 1 more", root.one("section", id="curves").text)
    trace = curve(tmp_path, 0)[0]
    assert trace["values"][4:8] == [record_002.curves[0].values[4], None, None, record_002.curves[0].values[7]]


def long_log(count: int) -> Iterable[tuple[int, str]]:
    offset = 0
    for i in range(count):
        text = f"I0418 18:10:00.000000 1352 metric_logger.py:196] completed step: {i}, seconds: 0.100, loss: 1.0"
        yield offset, text
        offset += len(text) + 1


@pytest.mark.flows
def test_a_long_run_gives_a_page_of_bounded_size(tmp_path: Path, record_002: ComparisonRecord) -> None:
    count = 60_000
    steps = tuple(range(count))
    offsets = tuple(offset for offset, _ in long_log(count))
    values = tuple(28.0 if i == 30_001 else 0.1 + (i % 7) / 1000 for i in steps)
    curves = tuple(
        Curve(
            metric=metric,
            arm=arm.name,
            run_name=arm.runs[0],
            steps=steps,
            values=values,
            lines=tuple(i + 1 for i in steps),
            offsets=offsets,
        )
        for metric in ("loss", "step_time_s")
        for arm in (record_002.baseline, record_002.candidate)
    )
    record = record_002.replace(curves=curves, rows=(), findings=(), stalls={})
    lines = {arm.name: long_log(count) for arm in (record.baseline, record.candidate)}
    page = write_page(record, tmp_path, log_lines=lines)
    assert page.stat().st_size < 150_000  # long data is loaded on demand
    root = read(page)
    trace = curve(tmp_path, 1)[0]
    assert len(trace["values"]) == count  # and it is complete
    stall = trace["values"].index(28.0)
    lines = log_lines(tmp_path, "baseline", root)
    assert len(lines) == count
    assert "completed step: 30001," in lines[f"baseline-L{trace['lines'][stall]}"]
    whole = (tmp_path / "logs" / "baseline.txt").read_text().splitlines()
    assert len(whole) == count


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, record_002: ComparisonRecord) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"file/page.*--out"):
        write_page(record_002, tmp_path / "file" / "page", log_lines={})


def test_a_failed_page_leaves_the_old_one(tmp_path: Path, record_002: ComparisonRecord, logs_002: Lines) -> None:
    page = write_page(record_002, tmp_path, log_lines=logs_002)
    before = page.read_text()

    def breaking() -> Iterable[tuple[int, str]]:
        yield from logs_002["main"]
        raise RuntimeError("the log went away")

    with pytest.raises(RuntimeError, match="went away"):
        write_page(record_002, tmp_path, log_lines={"main": breaking()})
    assert page.read_text() == before
    assert sorted(p.name for p in (tmp_path / "logs").iterdir()) == [
        f"{side}{end}" for side in ("baseline", "candidate") for end in ("-1.js", ".txt")
    ]


def test_the_commits_between_the_refs_are_listed(
    tmp_path: Path, record_002: ComparisonRecord, hostile: str, wording: Wording
) -> None:
    own = Commit(sha="1b5e4eb5a" + "0" * 31, time="2026-04-17T10:11:12+02:00", author="A. Uthor", subject=hostile)
    reported = {"commits": {record_002.candidate.name: (own,)}}
    between = {"candidate": record_002.candidate.replace(commit=own.sha)}
    root = read(write_page(record_002.replace(**(reported | between)), tmp_path, log_lines={}))
    commits = root.one("details", id="d-commits")
    assert re.findall(r"\d+", commits.one("summary").text) == [
        "0",
        "1",
    ]  # of the baseline alone, of the candidate alone
    wording("parts", commits.one("summary").text)
    assert visible(hostile).split() == commits.one("tbody").one("td", class_="why").text.split()


def test_the_diff_of_a_working_tree_is_kept(
    tmp_path: Path, record_002: ComparisonRecord, hostile: str, wording: Wording
) -> None:
    edited = CodeVersion(
        name="your tree (a.py)", sha="2" * 40, head="3" * 40, subject="a feature", changed=("a.py",),
        diff=f"-one\n+{hostile}",
    )  # fmt: skip
    root = read(write_page(record_002.replace(code={record_002.candidate.name: edited}), tmp_path,
                           log_lines={}))  # fmt: skip
    shown = root.one("details", id="d-edits-candidate")
    assert shown.one("summary").text.startswith("a.py")
    assert "not in 333333333" in root.one("section", id="change").text
    wording("parts", shown.one("summary").text)
    assert shown.one("pre").text.split() == ["-one", *f"+{visible(hostile)}".split()]
    assert "your tree (a.py)" in " ".join(root.one("ul", id="compared").text.split())
    assert ("3" * 40) in root.one("details", id="d-commits").text  # the user's clone lacks the other commit


def test_a_short_diff_is_on_the_first_screen(tmp_path: Path, record_002: ComparisonRecord) -> None:
    diff = "diff --git a/a.py b/a.py\nindex 1..2 100644\n--- a/a.py\n+++ b/a.py\n@@ -1,1 +1,1 @@\n-one\n+two"
    version = CodeVersion(
        name="your tree (a.py)", sha="2" * 40, head="3" * 40, subject="", changed=("a.py",), diff=diff
    )
    html = write_page(record_002.replace(code={record_002.candidate.name: version}), tmp_path, log_lines={}).read_text()
    front = html[html.index('<section class="front">') :].partition("</section>")[0]
    root = Reader(f"<main>{front}</section></main>").root
    assert root.one("pre", class_="diff").text == "a.py:1 @@ -1,1 +1,1 @@ -one +two"
    assert front.index('class="diff"') < front.index('class="commands"')  # the reason, then the next step
    assert 'id="change"' not in html  # once


def test_the_evidence_follows_the_first_screen(tmp_path: Path, record_002: ComparisonRecord) -> None:
    measured = EvidenceLine(made="2026-11-29T00:00:00+00:00", what="the runs", result="changed", counts=True)
    runs = measured.replace(made="", what="runs")  # their log tells no time
    html = write_page(record_002.replace(evidence=(measured, runs)), tmp_path, log_lines={}).read_text()
    sections = re.findall(r'<section (?:id|class)="([\w-]+)"', html)
    assert sections[:2] == ["front", "evidence"]


def test_a_curve_has_a_title_and_a_unit(tmp_path: Path, record_002: ComparisonRecord) -> None:
    curves = tuple(
        one.replace(metric=name)
        for name in ("device_s", "step_cpu_time_s", "tflops_per_device", "lm_loss")
        for one in record_002.curves[:1]
    )
    page = write_page(record_002.replace(curves=curves), tmp_path, log_lines={})
    assert [(figure["title"], figure["unit"]) for figure in data(read(page))["figures"]] == [
        ("Step time: the device and waiting for it", "s"),
        ("CPU time per step", "s"),
        ("TFLOP/s", "TFLOP/s/device"),
        ("lm loss", ""),
    ]


def test_metrics_in_neither_log_share_one_grey_line(tmp_path: Path, record_002: ComparisonRecord) -> None:
    record = record_002.replace(absent=("Memory %", "<b>"))
    line = read(write_page(record, tmp_path, log_lines={})).one("p", class_="absent")
    assert line.text == "No value on either side: Memory %, <b>."


def test_rows_of_one_step_are_not_judged_and_link_to_the_steady_row(
    tmp_path: Path, record_002: ComparisonRecord, make_row: Callable[..., MetricDiff]
) -> None:
    single = make_row("tokens_per_s", "Tok/s", ("2054.9", "1883.5", "-171.4"), "not judged", "see the steady steps")
    steady = make_row("step_time_s", "Step time, steady", ("0.08", "0.0865", "+0.0065"), "regressed", "surely slower")
    for rows in ((single, steady), (single,)):
        record = record_002.replace(rows=rows, findings=())
        html = write_page(record, tmp_path, log_lines={}).read_text()
        assert 'id="m-tokens_per_s" data-verdict="not judged"' in html
        assert ('href="#m-step_time_s"' in html) is (len(rows) == 2)
        assert ('data-rows="regressed"' in html) is (len(rows) == 2)
