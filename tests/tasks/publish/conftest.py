"""Comparison records as the two MaxView pages of the founding documents would give them, built by hand."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tasks.records import (
    ArmSummary,
    ArrayDifference,
    CheckpointDifference,
    CheckpointEvent,
    CheckpointProof,
    ComparisonRecord,
    Coverage,
    Curve,
    Environment,
    Evidence,
    Finding,
    FirstDivergence,
    Floor,
    LogError,
    MetricDiff,
    Problem,
    Source,
    Stall,
)

type Lines = list[tuple[int, str]]

WAIT_MS = 120_000
BRANCH = "feat/Migrate-Decoder-And-Tests-to-NNX"
RUN_MAIN = "main_20260418_180000"
RUN_BRANCH = "feat_Migrate_Decoder_And_Tests_to_NNX_20260419_063615"
TPU = Environment(jax="0.9.2", jaxlib="0.9.2", device_kind="TPU v6 lite", num_devices=32, mesh={"fsdp": 32})


def numbered(texts: Sequence[str], start: int = 0) -> Lines:
    """Lines with the byte offsets that they have in a file that begins `start` bytes before them."""
    lines, offset = [], start
    for text in texts:
        lines.append((offset, text))
        offset += len(text.encode()) + 1
    return lines


def step_lines(seconds: Sequence[float], losses: Sequence[float]) -> list[str]:
    return [
        f"I0418 18:10:{i:02d}.000000 135278194456384 metric_logger.py:196] completed step: {i}, seconds: {s:.3f}, "
        f"TFLOP/s/device: {13.59 / s:.3f}, Tokens/s/device: {2048 / s:.3f}, total_weights: 65536, loss: {loss:.3f}"
        for i, (s, loss) in enumerate(zip(seconds, losses, strict=True))
    ]


def trained_log(seconds: Sequence[float], losses: Sequence[float], jax: str, start: int = 0) -> Lines:
    head = [
        "XPK Start: Sat Apr 18 18:08:48 UTC 2026",
        f"I0418 18:09:29.500558 135278194456384 max_utils.py:800] System Information: Jax Version: {jax}",
        "I0418 18:09:44.160000 135278194456384 max_utils.py:194] number parameters: 1.104 billion",
        "I0418 18:09:50.000000 135278194456384 checkpointing.py:790] saving a checkpoint at step 0",
    ]
    return numbered(
        [*head, *step_lines(seconds, losses), "XPK End: Sat Apr 18 18:12:00 UTC 2026", "EXIT_CODE=0"], start
    )


def place(lines: Lines, needle: str, first_line: int = 1) -> Source:
    """Where a text stands in the log."""
    return next(Source(line=first_line + i, offset=o) for i, (o, text) in enumerate(lines) if needle in text)


def curves(arm: str, run: str, lines: Lines, seconds: Sequence[float], losses: Sequence[float]) -> list[Curve]:
    places = [place(lines, f"completed step: {i},") for i in range(len(losses))]
    return [
        Curve(
            metric=metric,
            arm=arm,
            run_name=run,
            steps=tuple(range(len(values))),
            values=tuple(values),
            lines=tuple(p.line for p in places),
            offsets=tuple(p.offset for p in places),
        )
        for metric, values in (("loss", losses), ("step_time_s", seconds))
    ]


def row(metric: str, title: str, texts: tuple[str, str, str], verdict: str, reason: str, **more: Any) -> MetricDiff:
    """One row; the figures are read back out of the texts where they are numbers."""
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


SECONDS_MAIN = (4.277, 1.399, 0.035, 0.823, 0.076, 0.071, 0.142, 9.671, 0.075, 0.071)
SECONDS_BRANCH = (3.950, 2.864, 0.424, 0.008, 0.070, 0.072, 9.285, 0.006, 0.070, 0.071)
LOSSES_MAIN = (10.889, 10.902, 9.956, 9.139, 8.459, 7.924, 7.553, 7.267, 7.111, 6.981)
LOSSES_BRANCH = (10.889, 10.902, 9.956, 9.139, 8.458, 7.924, 7.553, 7.267, 7.111, 6.981)


@pytest.fixture
def logs_002() -> dict[str, Lines]:
    return {
        "main": trained_log(SECONDS_MAIN, LOSSES_MAIN, "0.9.2"),
        BRANCH: trained_log(SECONDS_BRANCH, LOSSES_BRANCH, "0.8.1"),
    }


@pytest.fixture
def record_002(logs_002: dict[str, Lines]) -> ComparisonRecord:
    """`main` against a branch: same commit, other JAX, and an average that stalls have turned round."""
    main, branch = logs_002["main"], logs_002[BRANCH]
    ends, jax = (
        {"baseline_source": place(main, text), "candidate_source": place(branch, text)}
        for text in ("completed step: 9,", "Jax Version")
    )
    noisy = "-0.3 % from 1 run per arm: run-to-run noise is not known; run each arm 2 more times (--repeats 3)"
    rows = (
        row("parameters", "Parameters", ("1.104 billion", "1.104 billion", "—"), "same", "equal as printed"),
        row("final_loss", "Final loss", ("6.9810", "6.9810", "0"), "same", "equal to printed precision (3 decimals)",
            better="lower", threshold=0.0, threshold_text="exact", **ends),
        row("tflops", "TFLOP/s", ("11.338", "11.302", "-0.036"), "unknown", noisy,
            better="higher", threshold=0.22676, threshold_text="±2 %", unit="TFLOP/s/device", **ends),
        row("tokens", "Tok/s", ("1812.1", "1806.3", "-5.779"), "unknown", noisy,
            better="higher", threshold=36.24, threshold_text="±2 %", **ends),
        row("avg_step", "Avg s/step", ("1.374", "1.430", "+0.056"), "regressed",
            "the mean is ruled by stalls: see the median below",
            better="lower", threshold=0.027, threshold_text="±2 %", unit="s"),
        row("memory", "Memory %", ("1.31", "1.31", "0"), "same", "equal to 2 decimals",
            better="lower", threshold=0.0),
        row("jax", "JAX", ("0.9.2", "0.8.1", "—"), "unknown", "differs: see the findings", **jax),
        row("median_step", "Median steady step", ("0.076", "0.071", "-0.005"), "improved",
            "7 steady steps of each; the sign of the average flips once stalls are taken out",
            better="lower", group="ours", rule="median without step 0 and stalls", threshold=0.0015, unit="s"),
    )  # fmt: skip
    return ComparisonRecord(
        id="20260419T064158-3f9a1c",
        comparison="main-vs-branch",
        case="03_dropout",
        target="v6e-32",
        created="2026-04-19T07:00:00Z",
        question="Did moving the decoder and its tests to NNX change anything?",
        baseline=arm("main", "574ad3fb9", "0.9.2", main, RUN_MAIN, 7),
        candidate=arm(BRANCH, "574ad3fb9", "0.8.1", branch, RUN_BRANCH, 0),
        verdict="unknown",
        headline="Not comparable yet: both sides carry commit 574ad3fb9 and run different versions of JAX.",
        findings=(
            Finding(
                kind="same-commit",
                effect="blocks",
                message="Both sides carry the same commit under different branch names: nothing was changed.",
                evidence=(Evidence(arm="main", value="574ad3fb9"), Evidence(arm=BRANCH, value="574ad3fb9")),
            ),
            Finding(
                kind="jax-version",
                effect="qualifies",
                message="JAX differs: a difference may be its doing.",
                evidence=(
                    Evidence(arm="main", value="0.9.2", source=jax["baseline_source"]),
                    Evidence(arm=BRANCH, value="0.8.1", source=jax["candidate_source"]),
                ),
            ),
            Finding(kind="host-process", effect="note", message="The logs come from host processes 7 and 0."),
        ),
        rows=rows,
        floors=(
            Floor(name="same program", holds=None, evidence="no StableHLO in an ingested log"),
            Floor(name="same bits", holds=False, evidence="step 4: 8.459 and 8.458"),
            Floor(name="same checkpoint", holds=None, evidence="the checkpoints are not at hand"),
        ),
        divergence=FirstDivergence(metric="loss", step=4, baseline="8.459", candidate="8.458", precision="3 decimals"),
        curves=(
            *curves("main", RUN_MAIN, main, SECONDS_MAIN, LOSSES_MAIN),
            *curves(BRANCH, RUN_BRANCH, branch, SECONDS_BRANCH, LOSSES_BRANCH),
        ),
        stalls={
            "main": (stall(main, 7, 9.671),),
            BRANCH: (stall(branch, 6, 9.285),),
        },
        next_command="maxview compare main-vs-branch --case 03_dropout --repeats 3",
    )


def stall(lines: Lines, step: int, seconds: float) -> Stall:
    where = place(lines, f"completed step: {step},")
    return Stall(step=step, seconds=seconds, cause="checkpoint", line=where.line, offset=where.offset)


def arm(name: str, commit: str, jax: str, lines: Lines, run: str, process: int) -> ArmSummary:
    saved = place(lines, "saving a checkpoint")
    path = f"gs://bucket/{run}/checkpoints/0"
    return ArmSummary(
        name=name,
        label=f"{name} · {commit}",
        branch=name,
        commit=commit,
        jax=jax,
        exit_code=0,
        cause_of_death=None,
        started="2026-04-18T18:08:48Z",
        runs=(run,),
        logs=(f"logs/{run}.txt",),
        checkpoints=(
            CheckpointEvent(
                step=0,
                path=path,
                background_s=44.258613,
                arrays=39,
                committed=True if process == 0 else None,
                line=saved.line,
                offset=saved.offset,
            ),
        ),
        coverage=Coverage(step_lines_seen=10, step_lines_parsed=10, complete=True),
        environment=TPU.model_copy(update={"jax": jax, "jaxlib": jax, "process_index": process}),
    )


@pytest.fixture
def logs_000() -> dict[str, Lines]:
    """Both logs stand in one file: the second begins where the first ends, and its lines count on."""
    linen = trained_log(SECONDS_MAIN, LOSSES_MAIN, "0.9.2")
    end = linen[-1][0] + len(linen[-1][1]) + 1
    nnx = [
        "XPK Start: Sat Apr 18 02:26:32 UTC 2026",
        "I0418 02:27:13.547771 138471530227520 max_utils.py:800] System Information: Jax Version: 0.9.2",
        "Traceback (most recent call last):",
        '  File "/deps/src/maxtext/utils/train_utils.py", line 217, in setup_train_loop',
        "NotImplementedError: Pure NNX support has not been implemented yet.",
        "EXIT_CODE=1",
    ]
    return {"linen": linen, "nnx": numbered(nnx, end)}


@pytest.fixture
def record_000(logs_000: dict[str, Lines], record_002: ComparisonRecord) -> ComparisonRecord:
    """Linen against an NNX arm that died ten seconds after its start."""
    linen, nnx = logs_000["linen"], logs_000["nnx"]
    run = "main_20260417_235819"
    cause = place(nnx, "NotImplementedError:", first_line=len(linen) + 1)
    died = "the candidate died before its first step"
    ends = {"baseline_source": place(linen, "completed step: 9,")}
    proof = CheckpointProof(
        step=0,
        path=f"gs://bucket/{run}/checkpoints/0",
        ok=True,
        checks=("commit", "metadata", "ranges", "manifest"),
        arrays=39,
        files=56,
        bytes=13_249_000_000,
    )
    broken = CheckpointProof(
        step=9,
        path=f"gs://bucket/{run}/checkpoints/9",
        ok=False,
        checks=("commit", "metadata"),
        problems=(Problem(check="commit", path="9/commit_success.txt", message="missing: the save was cut off"),),
    )
    return record_002.model_copy(
        update={
            "id": "20260418T005424-000000",
            "comparison": "linen-vs-nnx",
            "case": "11_optimizer_offload_false",
            "question": "Does the NNX trainer train as the Linen trainer does?",
            "baseline": arm("linen", "147168c3a", "0.9.2", linen, run, 0).model_copy(
                update={"label": "Linen · 147168c3a", "proofs": (proof, broken)}
            ),
            "candidate": ArmSummary(
                name="nnx",
                label="NNX · 1b5e4eb5a",
                branch="main",
                commit="1b5e4eb5a",
                jax="0.9.2",
                exit_code=1,
                cause_of_death=LogError(
                    type="NotImplementedError",
                    message="Pure NNX support has not been implemented yet.",
                    line=cause.line,
                    offset=cause.offset,
                ),
                started="2026-04-18T02:26:32Z",
                runs=(run,),
                logs=("logs/nnx.txt",),
                environment=TPU,
            ),
            "verdict": "regressed",
            "headline": "NNX died before its first step: Pure NNX support has not been implemented yet.",
            "findings": (
                Finding(
                    kind="died",
                    effect="blocks",
                    message="The candidate died with exit code 1.",
                    evidence=(Evidence(arm="nnx", value="NotImplementedError", source=cause),),
                ),
                Finding(
                    kind="start",
                    effect="note",
                    message="The runs started 92 minutes apart.",
                    evidence=(
                        Evidence(arm="linen", value="2026-04-18T00:54:24Z"),
                        Evidence(arm="nnx", value="2026-04-18T02:26:32Z"),
                    ),
                ),
            ),
            "rows": (
                row("parameters", "Parameters", ("1.104 billion", "", ""), "regressed", died),
                row("final_loss", "Final loss", ("8.1790", "", ""), "regressed", died, better="lower", **ends),
                row("tflops", "TFLOP/s", ("91.900", "", ""), "regressed", died, better="higher", **ends),
                row("tokens", "Tok/s", ("13852.2", "", ""), "regressed", died, better="higher", **ends),
                row("avg_step", "Avg s/step", ("2.864", "", ""), "regressed", died, better="lower", unit="s"),
                row("memory", "Memory %", ("1.38", "", ""), "regressed", died, better="lower"),
                row("jax", "JAX", ("0.9.2", "0.9.2", "—"), "same", "equal"),
            ),
            "floors": (),
            "divergence": None,
            "curves": tuple(curves("linen", run, linen, SECONDS_MAIN, LOSSES_MAIN)),
            "stalls": {"linen": (stall(linen, 7, 9.671),)},
            "next_command": "",
        }
    )


@pytest.fixture
def hostile() -> str:
    """What a branch name, a log line or a case name can hold at worst."""
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
    """A record with the hostile text in every place that comes from outside, proofs of checkpoints included."""
    proved = record_002.baseline.model_copy(update={"proofs": record_000.baseline.proofs})
    return spoil(record_002.model_copy(update={"baseline": proved}), hostile)


@pytest.fixture
def hostile_logs(logs_002: dict[str, Lines], hostile: str) -> dict[str, Lines]:
    """The logs under their spoilt names, the hostile text in every line behind what stood there."""
    names = iter((f"a{hostile}", f"b{hostile}"))
    return {next(names): [(offset, f"{line} {hostile}") for offset, line in lines] for lines in logs_002.values()}


def spoil(record: ComparisonRecord, text: str) -> ComparisonRecord:
    """The record with the text in every place that comes from outside."""
    place = record.rows[1].baseline_source or Source(line=1, offset=0)

    def arm(summary: ArmSummary, name: str) -> ArmSummary:
        return summary.model_copy(
            update={
                **dict.fromkeys(("label", "branch", "commit", "jax", "started"), text),
                "name": name,
                "runs": (text,),
                "cause_of_death": LogError(type=text, message=text, line=place.line, offset=place.offset),
                "coverage": summary.coverage.model_copy(update={"unknown_keys": (text,)}),
                "environment": summary.environment.model_copy(update={"device_kind": text, "mesh": {text: 2}}),
                "checkpoints": tuple(event.model_copy(update={"path": text}) for event in summary.checkpoints),
                "proofs": tuple(
                    proof.model_copy(
                        update={"path": text, "problems": (Problem(check="commit", path=text, message=text),)}
                    )
                    for proof in summary.proofs
                ),
            }
        )

    names = {record.baseline.name: f"a{text}", record.candidate.name: f"b{text}"}
    evidence = (Evidence(arm=f"a{text}", value=text, source=place),)
    return record.model_copy(
        update={
            **dict.fromkeys(("comparison", "case", "target", "created", "question", "headline", "id"), text),
            "next_command": text,
            "checkpoints": CheckpointDifference(
                step=0,
                path=text,
                other_path=text,
                arrays=(
                    ArrayDifference(role="parameter", names=(text,), dtype=text),
                    ArrayDifference(role="other state", other_names=(text,), other_dtype=text),
                ),
            ),
            "baseline": arm(record.baseline, f"a{text}"),
            "candidate": arm(record.candidate, f"b{text}"),
            "findings": tuple(
                f.model_copy(update={"kind": text, "message": text, "evidence": evidence}) for f in record.findings
            ),
            "rows": tuple(
                row.model_copy(
                    update=dict.fromkeys(
                        ("title", "rule", "reason", "unit", "baseline_text", "candidate_text", "difference_text"), text
                    )
                    | {"threshold_text": text}
                )
                for row in record.rows
            ),
            "floors": tuple(floor.model_copy(update={"evidence": text}) for floor in record.floors),
            "divergence": record.divergence
            and record.divergence.model_copy(
                update=dict.fromkeys(("metric", "baseline", "candidate", "precision"), text)
            ),
            "curves": tuple(c.model_copy(update={"arm": names[c.arm], "run_name": text}) for c in record.curves),
            "stalls": {
                names[name]: tuple(stall.model_copy(update={"cause": text}) for stall in stalls)
                for name, stalls in record.stalls.items()
            },
        }
    )


@dataclass
class Visit:
    """An open page, and everything about it that a healthy page has none of."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def foreign(self) -> list[str]:
        return [address for address in self.requests if not address.startswith(("file:", "data:", "blob:"))]


class Opener:
    """Opens pages in contexts of their own and closes them all."""

    def __init__(self, browser: Any):
        self._browser = browser
        self._contexts: list[Any] = []

    def __call__(self, address: str, *, width: int = 1280, ready: bool = True, **options: Any) -> Visit:
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
        return visit

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Opener]:
    opener = Opener(browser)
    yield opener
    opener.close()
