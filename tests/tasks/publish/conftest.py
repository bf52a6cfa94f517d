"""Comparison records that `tasks/diff` makes of two saved pages with short logs."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tasks.diff.compare_logs import archive, compare_pair
from tasks.ingest.given_logs import read_pair
from tasks.records.checkpoint_proof import CheckpointProof, Problem, reached
from tasks.records.compared_case import ArmSummary, ComparisonRecord, Evidence, Floor, MetricDiff
from tasks.records.compared_checkpoints import ArrayDifference, CheckpointDifference
from tasks.records.next_step import NextStep
from tasks.records.run_end import LogError
from tasks.records.shared_fields import Source
from tasks.store.store import open_store

type Lines = list[tuple[int, str]]

WAIT_MS = 120_000
NARROW = 640  # px: on narrower screens tests open what they need
UNFOLD = """() => {
    for (const part of document.querySelectorAll("details.part")) part.open = true;
    const calm = document.querySelector("#calm:not([hidden])");
    if (calm) calm.click();
}"""  # opens the secondary sections of a page, and its rows that are the same
BRANCH = "feat/Migrate-Decoder-And-Tests-to-NNX"
RUN_MAIN = "main_20260418_180000"
RUN_BRANCH = "feat_Migrate_Decoder_And_Tests_to_NNX_20260419_063615"
RUN_LINEN = "main_20260417_235819"
SECONDS_MAIN = (4.277, 1.399, 0.035, 0.823, 0.076, 0.071, 0.142, 9.671, 0.075, 0.071)
SECONDS_BRANCH = (3.950, 2.864, 0.424, 0.008, 0.070, 0.072, 9.285, 0.006, 0.070, 0.071)
LOSSES_MAIN = (10.889, 10.902, 9.956, 9.139, 8.459, 7.924, 7.553, 7.267, 7.111, 6.981)
LOSSES_BRANCH = (10.889, 10.902, 9.956, 9.139, 8.458, 7.924, 7.553, 7.267, 7.111, 6.981)
# MaxText's and Orbax's lines, reduced to the parts that are read
HEAD = """XPK Start: Sat Apr 18 18:08:48 UTC 2026
I0418 18:09:29.500000 1352 max_utils.py:800] System Information: Jax Version: {jax}
I0418 18:09:29.500000 1352 max_utils.py:801] System Information: Jaxlib Version: {jax}
I0418 18:09:29.500000 1352 max_utils.py:802] System Information: Jax Backend: TFRT TPU v6 lite
I0418 18:09:30.500000 1352 maxtext_utils.py:1550] Num_devices: 32, shape (1, 1, 32, 1, 1, 1, 1, 1, 1, 1, 1, 1)
fsdp: 32
I0418 18:09:44.160000 1352 max_utils.py:194] number parameters: 1.104 billion
I0418 18:09:50.000000 1352 checkpoint_manager.py:1512] [process={process}] Saving checkpoint at step 0
I0418 18:09:50.000000 1352 async_checkpointer.py:453] [process={process}] Started async saving checkpoint to {path}.
I0418 18:09:50.000000 1352 array_handler.py:800] Scheduling D2H of 39 prioritized jax.Array
I0418 18:09:51.000000 1352 max_utils.py:700] \tUsing (GB) {memory} / 31.25 ({percent:%}) on TPU_0(process=0,(0,0,0,0))
"""
STEP = (
    "I0418 18:10:{i:02d}.000000 1352 metric_logger.py:196] completed step: {i}, seconds: {seconds:.3f}, "
    "TFLOP/s/device: {tflops:.3f}, Tokens/s/device: {tokens:.3f}, total_weights: 65536, loss: {loss:.3f}\n"
)
COMMIT = (
    "I0418 18:11:39.000000 1352 atomicity.py:790] [process=0][thread=async_save] "
    "Finished saving checkpoint (finalized tmp dir) to `{path}`.\n"
)
TAIL = """I0418 18:11:40.000000 1352 async_checkpointer.py:160] Background save thread done. Time taken: 44.258613s.
XPK End: Sat Apr 18 18:12:00 UTC 2026
EXIT_CODE=0
"""
DEATH = """XPK Start: Sat Apr 18 19:40:32 UTC 2026
I0418 19:41:13.547771 1384 max_utils.py:800] System Information: Jax Version: 0.9.2
Traceback (most recent call last):
  File "/deps/src/maxtext/utils/train_utils.py", line 217, in setup_train_loop
NotImplementedError: Pure NNX support has not been implemented yet.
EXIT_CODE=1
"""


def trained_log(
    seconds: Sequence[float], losses: Sequence[float], *, jax: str, run: str, process: int, memory: float = 0.41
) -> str:
    """The log of a run that ended well; only process 0 prints commits. memory: GB in use on a device."""
    path = f"gs://bucket/{run}/checkpoints/0"
    steps = [
        STEP.format(i=i, seconds=s, tflops=13.59 / s, tokens=2048 / s, loss=loss)
        for i, (s, loss) in enumerate(zip(seconds, losses, strict=True))
    ]
    commit = COMMIT.format(path=path) if process == 0 else ""
    head = HEAD.format(jax=jax, process=process, path=path, memory=memory, percent=memory / 31.25)
    return head + "".join(steps) + commit + TAIL


@dataclass(frozen=True)
class Page:
    """A saved page of MaxView with both logs: text, and each log by the name of its arm."""

    text: str
    logs: dict[str, str]

    def lines(self) -> dict[str, Lines]:
        """The lines of each log, with their byte offsets in the page."""
        return {name: numbered(log, len(self.text[: self.text.index(log)].encode())) for name, log in self.logs.items()}

    def line(self, arm: str, needle: str) -> int:
        """The number of the first line of an arm's log with this text, counted in the page."""
        before = self.text.partition(self.logs[arm])[0] + self.logs[arm].partition(needle)[0]
        return before.count("\n") + 1

    def compare(self, comparison: str, folder: Path, *proofs: CheckpointProof) -> ComparisonRecord:
        """The comparison of the page's logs as `maxview ingest` makes it, under the name of a launched comparison.

        proofs: of the baseline's checkpoints.
        """
        (file := folder / "page.txt").write_text(self.text, encoding="utf-8")
        arms = read_pair([file])
        assert arms.case is not None
        baseline, *others = archive(arms, open_store(folder / "out"))
        baseline = baseline.replace(proofs=proofs)
        record = compare_pair([baseline, *others], case=arms.case, aa=False)
        return record.replace(comparison=comparison, target="v6e-32")


def make_page(case: str, title: str, cells: str, logs: dict[str, tuple[str, str, str]]) -> Page:
    """logs: arm -> commit, run, log."""
    text = f"MaxView\n\n‹ Case: {case} ›\n\nMetrics: {title}\n\nMetric{cells}\n\n"
    for name, (commit, run, log) in logs.items():
        text += f"{name} \u00a0·\u00a0 {commit} \u00a0·\u00a0 {run} \u00a0·\u00a0 full log\n{log}"
    return Page(text, {name: log for name, (_, _, log) in logs.items()})


def numbered(text: str, start: int = 0) -> Lines:
    """Lines with their byte offsets in a file in which they begin at byte `start`."""
    lines, offset = [], start
    for line in text.splitlines():
        lines.append((offset, line))
        offset += len(line.encode()) + 1
    return lines


@pytest.fixture(scope="session")
def page_002() -> Page:
    """`main` against a branch: the same commit, another JAX, more memory, and means dominated by stalls."""
    sha = "574ad3fb9"
    main = trained_log(SECONDS_MAIN, LOSSES_MAIN, jax="0.9.2", run=RUN_MAIN, process=7)
    branch = trained_log(SECONDS_BRANCH, LOSSES_BRANCH, jax="0.8.1", run=RUN_BRANCH, process=0, memory=0.45)
    return make_page(
        "03_dropout",
        f"main ({sha}) vs {BRANCH} ({sha})",
        f"main  {sha}{BRANCH}  {sha}Diff ({BRANCH} − main)",
        {"main": (sha, RUN_MAIN, main), BRANCH: (sha, RUN_BRANCH, branch)},
    )


@pytest.fixture(scope="session")
def page_000() -> Page:
    """Linen against an NNX arm that died forty seconds after its start."""
    linen = trained_log(SECONDS_MAIN, LOSSES_MAIN, jax="0.9.2", run=RUN_LINEN, process=0)
    return make_page(
        "11_optimizer_offload_false",
        "Linen vs NNX \u00a0·\u00a0 main",
        "Linen  147168c3aNNX  1b5e4eb5aDiff (NNX − Linen)",
        {"Linen": ("147168c3a", RUN_LINEN, linen), "NNX": ("1b5e4eb5a", RUN_LINEN, DEATH)},
    )


@pytest.fixture
def logs_002(page_002: Page) -> dict[str, Lines]:
    return page_002.lines()


@pytest.fixture
def logs_000(page_000: Page) -> dict[str, Lines]:
    return page_000.lines()


@pytest.fixture(scope="session")
def record_002(page_002: Page, tmp_path_factory: pytest.TempPathFactory) -> ComparisonRecord:
    """The page's comparison, with floors, which logs alone do not have."""
    floors = (
        Floor(name="same program", holds=None, evidence="no StableHLO in an ingested log"),
        Floor(name="same bits", holds=False, evidence="step 4: 8.459 and 8.458"),
        Floor(name="same checkpoint", holds=None, evidence="the checkpoints are not at hand"),
    )
    return page_002.compare("main-vs-branch", tmp_path_factory.mktemp("page")).replace(floors=floors)


@pytest.fixture(scope="session")
def record_000(page_000: Page, tmp_path_factory: pytest.TempPathFactory) -> ComparisonRecord:
    """The page's comparison, with proofs of two checkpoints; their bucket does not exist."""
    proof = CheckpointProof(
        step=0,
        path=f"gs://bucket/{RUN_LINEN}/checkpoints/0",
        ok=True,
        checks=("commit", "metadata", "ranges", "manifest"),
        levels=reached(("commit", "metadata", "ranges", "manifest"), ()),
        arrays=39,
        files=56,
        bytes=13_249_000_000,
    )
    broken = CheckpointProof(
        step=9,
        path=f"gs://bucket/{RUN_LINEN}/checkpoints/9",
        ok=False,
        checks=("commit", "metadata"),
        levels=reached(("commit", "metadata"), {"commit"}),
        problems=(Problem(check="commit", path="9/commit_success.txt", message="missing: the save was cut off"),),
    )
    return page_000.compare("linen-vs-nnx", tmp_path_factory.mktemp("page"), proof, broken)


def row(metric: str, title: str, texts: tuple[str, str, str], verdict: str, reason: str, **more: Any) -> MetricDiff:
    """One row; its numbers are parsed from the texts."""
    figures = [float(text) if re.fullmatch(r"[+-]?\d+(\.\d+)?", text) else None for text in texts]
    fields = {
        "unit": "",
        "better": "equal",
        "rule": "last step",
        "group": "maxview",
        "threshold": None,
        **dict(zip(("baseline", "candidate", "difference"), figures, strict=True)),
        **more,
    }
    return MetricDiff(
        metric=metric,
        title=title,
        baseline_text=texts[0],
        candidate_text=texts[1],
        difference_text=texts[2],
        verdict=verdict,
        reason=reason,
        **fields,
    )


@pytest.fixture
def hostile() -> str:
    """The most hostile text that a branch name, a log line or a case name can contain."""
    return (
        "</script><script>window.owned=1</script><img src=x onerror=window.owned=2>\"' onmouseover='window.owned=3' "
        "[link](javascript:window.owned=4) {{ 7*7 }} `tick` | pipe &lt; \x1b[31mred\x1b[0m "
        "\x1b]8;;http://evil\x07 \u202egpj.exe\x00"
    )


@pytest.fixture
def make_row() -> Callable[..., MetricDiff]:
    return row


@pytest.fixture
def hostile_record(record_000: ComparisonRecord, record_002: ComparisonRecord, hostile: str) -> ComparisonRecord:
    """A record with hostile text in every external field, also in the proofs of checkpoints."""
    proved = record_002.baseline.replace(proofs=record_000.baseline.proofs)
    return spoil(record_002.replace(baseline=proved), hostile)


@pytest.fixture
def hostile_logs(logs_002: dict[str, Lines], hostile: str) -> dict[str, Lines]:
    """The logs under hostile names, with the hostile text at the end of every line."""
    names = iter((f"a{hostile}", f"b{hostile}"))
    return {next(names): [(offset, f"{line} {hostile}") for offset, line in lines] for lines in logs_002.values()}


def spoil(record: ComparisonRecord, text: str) -> ComparisonRecord:
    """The record with the text in every external field."""
    place = record.rows[1].baseline_source or Source(line=1, offset=0)

    def arm(summary: ArmSummary, name: str) -> ArmSummary:
        return summary.replace(
            **dict.fromkeys(("label", "branch", "commit", "jax", "started"), text),
            name=name,
            runs=(text,),
            cause_of_death=LogError(type=text, message=text, line=place.line, offset=place.offset),
            coverage=summary.coverage.replace(unknown_keys=(text,)),
            environment=summary.environment.replace(device_kind=text, mesh={text: 2}),
            checkpoints=tuple(event.replace(path=text) for event in summary.checkpoints),
            proofs=tuple(
                proof.replace(path=text, problems=(Problem(check="commit", path=text, message=text),))
                for proof in summary.proofs
            ),
        )

    names = {record.baseline.name: f"a{text}", record.candidate.name: f"b{text}"}
    evidence = (Evidence(arm=f"a{text}", value=text, source=place),)
    return record.replace(
        **dict.fromkeys(("comparison", "case", "target", "created", "question", "headline", "id"), text),
        conclusion=record.conclusion.replace(arms=(text, text), blocked=text),
        next_step=NextStep(kind="by hand", argv=(text,), purpose=text, cost=text),
        checkpoints=CheckpointDifference(
            step=0,
            path=text,
            other_path=text,
            arrays=(
                ArrayDifference(role="parameter", names=(text,), dtype=text),
                ArrayDifference(role="other state", other_names=(text,), other_dtype=text),
            ),
        ),
        baseline=arm(record.baseline, f"a{text}"),
        candidate=arm(record.candidate, f"b{text}"),
        findings=tuple(f.replace(kind=text, message=text, evidence=evidence) for f in record.findings),
        rows=tuple(
            row.replace(
                **(
                    dict.fromkeys(
                        ("title", "rule", "reason", "unit", "baseline_text", "candidate_text", "difference_text"), text
                    )
                    | {"threshold_text": text}
                )
            )
            for row in record.rows
        ),
        floors=tuple(floor.replace(evidence=text) for floor in record.floors),
        divergence=record.divergence
        and record.divergence.replace(**dict.fromkeys(("metric", "baseline", "candidate", "precision"), text)),
        curves=tuple(c.replace(arm=names[c.arm], run_name=text) for c in record.curves),
        stalls={
            names[name]: tuple(stall.replace(cause=text) for stall in stalls) for name, stalls in record.stalls.items()
        },
    )


@dataclass
class Visit:
    """An open page, and its errors: failed requests, messages, violations."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def foreign(self) -> list[str]:
        return [address for address in self.requests if not address.startswith(("file:", "data:", "blob:"))]


class Opener:
    """Open pages in separate contexts, and close them at the end."""

    def __init__(self, browser: Any):
        self._browser = browser
        self._contexts: list[Any] = []

    def __call__(
        self, address: str, *, width: int = 1280, ready: bool = True, unfolded: bool = True, **options: Any
    ) -> Visit:
        context = self._browser.new_context(viewport={"width": width, "height": 900}, **options)
        context.set_default_timeout(WAIT_MS)
        self._contexts.append(context)
        visit = Visit(context.new_page())
        visit.page.on("request", lambda request: visit.requests.append(request.url))
        visit.page.on("console", lambda message: visit.complaints.append(f"{message.type}: {message.text}"))
        visit.page.on("pageerror", lambda error: visit.complaints.append(f"error: {error}"))
        visit.page.on("dialog", lambda dialog: visit.complaints.append(f"dialog: {dialog.message}"))
        visit.page.goto(address)
        if ready:
            visit.page.wait_for_selector("html[data-ready=yes]", state="attached")
            if unfolded and width > NARROW:
                visit.page.evaluate(UNFOLD)
        return visit

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Opener]:
    opener = Opener(browser)
    yield opener
    opener.close()
