"""Two logs or one page to the records of two arms, and mistakes in them."""

import gzip
import os
import re
import shlex
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

import pytest
import zstandard

from flows.cli.app import app, call_command
from tasks.diff.compare_logs import LogArguments, archive, compare_pair, next_of_logs
from tasks.diff.judge.ingest_command import name_logs
from tasks.ingest.given_logs import assign_sides, open_arms, read_pair
from tasks.records.compared_case import ComparisonRecord, Verdict
from tasks.records.log_reading import Environment
from tasks.records.run import RunRecord
from tasks.scrape.window import LogFormatError
from tasks.store.store import Store
from tests.wording.sentences import Wording

seeds = pytest.mark.skipif(
    "MAXVIEW_SEEDS" not in os.environ, reason="MAXVIEW_SEEDS does not name the folder of the founding documents"
)

HEAD = "XPK Start: Sat Apr 18 00:54:24 UTC 2026\n"
STEP = (
    "I0418 00:55:{second:02d}.221671 135104514455360 metric_logger.py:196] completed step: {step}, "
    "seconds: {seconds:.3f}, TFLOP/s/device: 91.900, Tokens/s/device: 13852.158, total_weights: 65536, "
    "loss: {loss:.3f}\n"
)
END = "XPK End: Sat Apr 18 00:57:29 UTC 2026\nEXIT_CODE={code}\n"


def log_text(*, losses: tuple[float, ...] = (9.0, 8.5, 8.0), code: int | None = 0) -> str:
    steps = [STEP.format(second=n, step=n, seconds=0.1 + n / 100, loss=loss) for n, loss in enumerate(losses)]
    return HEAD + "".join(steps) + ("" if code is None else END.format(code=code))


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write_log(name: str, text: str | None = None) -> Path:
        path = tmp_path / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(log_text() if text is None else text)
        return path

    return write_log


def records_of(paths: list[Path], out: Path) -> list[RunRecord]:
    return archive(read_pair(paths), Store(out))


# ---------------------------------------------------------------- reading


@pytest.mark.parametrize("on_a_page", [False, True])
def test_a_trainer_that_never_prints_an_exit_code_has_not_died(
    on_a_page: bool, write: Callable[..., Path], tmp_path: Path
) -> None:
    text = "".join(
        f" iteration {n:8d}/       3 | consumed samples: {8 * n:12d} | elapsed time per iteration (ms): 493.2 | "
        f"learning rate: 1.0E-04 | global batch size:     8 | lm loss: 9.{n}00000E+00 | loss scale: 1.0 | "
        "grad norm: 1.000 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        for n in (1, 2, 3)
    )
    text += "[after training is done] datetime: 2026-04-20 03:17:08 \n"
    page = "Linen (1234567) vs NNX (7654321)\n\nMetric\tLinen (1234567)\tNNX (7654321)\tDiff (NNX - Linen)\n\n"
    page += "".join(f"{name} · main · full log\n{text}" for name in ("Linen · 1234567", "NNX · 7654321"))
    paths = [write("page.txt", page)] if on_a_page else [write("a.txt", text), write("b.txt", text)]
    for record in records_of(paths, tmp_path / "out"):
        assert (record.reading.steps.height, record.reading.coverage.complete) == (3, True)
        assert (record.reading.error, record.has_died) == (None, False)


def test_two_logs_are_two_arms_in_the_given_order(write: Callable[..., Path]) -> None:
    pair = read_pair([write("b.txt"), write("a.txt", log_text(losses=(9.0, 8.0)))])
    assert [run.reading.steps.height for run in (*pair.baseline, *pair.candidate)] == [3, 2]
    assert pair.case is None


def pods_text(*pods: tuple[str, str]) -> str:
    """The logs of several pods as `kubectl logs --prefix` mixes them."""
    lines = [[f"[pod/{name}] {line}\n" for line in text.splitlines()] for name, text in pods]
    return "".join(line for row in zip_longest(*lines, fillvalue="") for line in row)


def test_process_0_is_compared_among_the_pods_of_one_job(write: Callable[..., Path], tmp_path: Path) -> None:
    first, second = log_text(losses=(9.0, 8.0)), log_text(losses=(9.0, 8.0, 7.0))
    pods = ("job-slice-job-0-1-abcde/jax", second), ("job-slice-job-0-0-fghij/jax", first)
    reported = ("a/jax", second), ("b/jax", "I0418 00:54:25.000000 1 x.py:1] [process=0] starts\n" + first)
    other = write("other.txt")
    for mixed in (pods, reported):
        path = write("pods.txt", pods_text(*mixed))
        pair = read_pair([path, other])
        assert pair.baseline[0].reading.steps.height == 2
        assert [run.pod for run in (*pair.baseline, *pair.candidate)] == [mixed[1][0], None]
        record = records_of([path, other], tmp_path / "out")[0]
        text = Path(record.log).read_text()
        assert text == mixed[1][1]
        offset = record.reading.steps["offset"][1]
        assert text[offset:].startswith("completed step: 1,")


@pytest.mark.parametrize(("names", "word"), [(("a", "b"), "none"), (("x-0-0-abcde", "y-0-0-abcde"), "more than one")])
def test_pods_without_a_process_0_are_refused(write: Callable[..., Path], names: tuple[str, str], word: str) -> None:
    path = write("pods.txt", pods_text(*((f"{name}/jax", log_text()) for name in names)))
    message = rf"pods\.txt: holds 2 runs \({names[0]}/jax, {names[1]}/jax\), and {word} of them is process 0 of its job"
    with pytest.raises(LogFormatError, match=message):
        read_pair([path, write("other.txt")])


@pytest.mark.parametrize(
    ("baseline", "candidate", "names", "runs"),
    [
        (["before.txt"], ["after.txt"], ("before", "after"), ["before", "after"]),
        (["linen/log.txt"], ["nnx/log.txt"], ("linen", "nnx"), ["linen", "nnx"]),
        (["linen-r0.txt", "linen-r1.txt"], ["nnx-r0.txt", "nnx-r1.txt"], ("linen", "nnx"),
         ["linen-r0", "linen-r1", "nnx-r0", "nnx-r1"]),
        (["a/1/log.txt", "a/2/log.txt"], ["b/1/log.txt", "b/2/log.txt"], ("baseline", "candidate"),
         ["baseline-1", "baseline-2", "candidate-1", "candidate-2"]),
        (["run1.txt", "run3.txt"], ["run2.txt"], ("baseline", "candidate"), ["run1", "run3", "candidate"]),
    ],
)  # fmt: skip
def test_arms_always_have_different_names(
    baseline: list[str], candidate: list[str], names: tuple[str, str], runs: list[str], write: Callable[..., Path]
) -> None:
    sides = [
        [str(write(name, log_text(losses=(9.0, 8.5, start + n / 100)))) for n, name in enumerate(side)]
        for start, side in ((7.0, baseline), (8.0, candidate))
    ]
    with open_arms((sides[0], sides[1])) as arms:
        assert arms.names == names
        assert [run.reading.name for run in (*arms.baseline, *arms.candidate)] == runs


def test_one_log_against_itself_has_two_arms(write: Callable[..., Path], tmp_path: Path) -> None:
    path = write("log.txt")
    records = records_of([path, path], tmp_path / "out")
    assert [record.arm for record in records] == ["baseline", "candidate"]
    assert compare_pair(records, case="logs", aa=True).stalls.keys() == {"baseline", "candidate"}


def test_one_log_is_not_a_comparison(write: Callable[..., Path], wording: Wording) -> None:
    path = write("log.txt")
    with pytest.raises(LogFormatError) as caught:
        read_pair([path])
    message = str(caught.value)
    assert message.startswith(f"{path}: holds 1 run")
    wording("errors", message)


# ---------------------------------------------------------------- several runs of each


HOW = "maxview ingest --baseline LOG… --candidate LOG…"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (([], [], []), "expected one page or two logs, got 0 files; several runs of each: " + HOW),
        ((["x"] * 50, [], []), "expected one page or two logs, got 50 files; several runs of each: " + HOW),
        (([], ["a"], []), "there is no log of the candidate: " + HOW),
        (([], [], ["a"] * 50), "there is no log of the baseline: " + HOW),
        ((["x"], ["a"], ["b"]), "x: name the side of every log: " + HOW),
    ],
)
def test_words_that_are_not_a_comparison(words: tuple[list[str], list[str], list[str]], message: str) -> None:
    with pytest.raises(LogFormatError) as caught:
        assign_sides(*words)
    assert str(caught.value) == message


def timed(minute: int, loss: float = 8.0) -> str:
    """A log of a run that began in this minute."""
    return log_text(losses=(9.0, 8.5, loss)).replace("Apr 18 00:54:24", f"Apr 18 00:{minute:02}:24")


def test_folders_and_patterns_give_their_logs_in_the_order_of_their_start(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    for name, minute in (("base/x.txt", 30), ("base/deep/y.txt", 10), ("c1.log", 20), ("c2.log", 40)):
        write(name, timed(minute))
    write("base/notes.md", "no log")
    with open_arms(([str(tmp_path / "logs/base")], [str(tmp_path / "logs/c*.log")])) as arms:
        assert [run.file.name for run in arms.baseline] == ["y.txt", "x.txt"]
        assert [run.file.name for run in arms.candidate] == ["c1.log", "c2.log"]
        records = archive(arms, Store(tmp_path / "out"))
    record = compare_pair(records, case="logs", aa=False)
    assert [len(arm.runs) for arm in (record.baseline, record.candidate)] == [2, 2]
    assert {curve.arm for curve in record.curves} == {record.baseline.name, record.candidate.name}


@pytest.mark.parametrize("place", ["logs/none*.log", "logs/empty", "logs/texts"])
def test_a_path_without_a_log_is_named(place: str, write: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "logs/empty").mkdir(parents=True)
    good = write("a.txt")
    write("texts/readme.md", "no log")
    with (
        pytest.raises(LogFormatError, match=place.rpartition("/")[2].replace("*", r"\*")),
        open_arms(([str(good)], [str(tmp_path / place)])),
    ):
        pass


def more_tokens(text: str) -> str:
    return text.replace("65536", "131072")


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ((timed(1), more_tokens(timed(2))), "they have different tokens per step (65536 and 131072)"),
        ((timed(1), " iteration        1/      20 | consumed samples:           16 | elapsed time per iteration (ms): "
          "4493.2 | lm loss: 9.0E+00 |\n"), "they have different trainers (maxtext and megatron)"),
        ((timed(1), timed(1)), "are the same log, and count as one run"),
    ],
)  # fmt: skip
def test_logs_that_cannot_be_runs_of_one_arm(texts: tuple[str, str], words: str, write: Callable[..., Path]) -> None:
    mixed = [str(write(f"a{n}.txt", text)) for n, text in enumerate(texts)]
    with pytest.raises(LogFormatError) as caught, open_arms((mixed, [str(write("b.txt", timed(9)))])):
        pass
    assert str(caught.value).startswith(f"{mixed[0]} and {mixed[1]}: ")
    assert words in str(caught.value)


def test_one_file_on_both_sides_needs_aa(write: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write("a.txt"))
    assert call_command(["ingest", path, path]) == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert "holds 1 run, a comparison needs two" in shown
    assert "--aa" in shown
    with open_arms(([path], [path]), aa=True) as arms:
        assert arms.names == ("baseline", "candidate")


def test_two_copies_of_one_log_are_not_a_comparison(
    write: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    wording: Wording,
) -> None:
    path, copy = str(write("a.txt")), str(write("b.txt"))
    assert call_command(["ingest", path, copy]) == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert f"{copy}: is the same log as {path}" in shown
    assert "--aa" in shown
    wording("errors", shown)
    with open_arms(([path], [copy]), aa=True) as arms:
        assert arms.names == ("a", "b")


def pack(text: bytes, way: str) -> bytes:
    """The text of a log in another compression."""
    if way == "gzip":
        return gzip.compress(text)
    if way == "zstd":
        return zstandard.compress(text)
    if way == "utf-16":
        return text.decode().encode("utf-16")
    if way == "carriage returns":
        return text.replace(b"\n", b"\r\n")
    return "".join(f"[pod/x-0-0-abcde/c] {line}\n" for line in text.decode().splitlines()).encode()


@pytest.mark.parametrize("way", ["gzip", "zstd", "utf-16", "carriage returns", "kubectl logs --prefix"])
def test_one_log_in_two_compressions_is_not_a_comparison(way: str, write: Callable[..., Path]) -> None:
    path = write("a.txt")
    packed = path.with_name("b.txt")
    packed.write_bytes(pack(path.read_bytes(), way))
    with (
        pytest.raises(LogFormatError, match=f"{packed}: is the same log as {path}"),
        open_arms(([str(path)], [str(packed)])),
    ):
        pass
    with (
        pytest.raises(LogFormatError, match="are the same log, and count as one run"),
        open_arms(([str(path), str(packed)], [str(write("c.txt", timed(9)))])),
    ):
        pass


def test_a_hard_link_is_the_same_log_and_a_log_with_another_line_is_not(write: Callable[..., Path]) -> None:
    path = write("a.txt")
    linked, other = path.with_name("b.txt"), path.with_name("c.txt")
    linked.hardlink_to(path)
    with pytest.raises(LogFormatError, match="is the same log as"), open_arms(([str(path)], [str(linked)])):
        pass
    other.write_bytes(b"another host\n" + path.read_bytes())
    with open_arms(([str(path)], [str(other)])) as arms:
        assert len(arms.baseline) == len(arms.candidate) == 1


LONG = log_text(losses=tuple(9 - n / 10 for n in range(12)))


@pytest.mark.parametrize(
    "edited",
    [
        "another host\n" + LONG,
        LONG.replace("EXIT_CODE=0\n", ""),
        LONG[: LONG.index("completed step: 11")],
        LONG.replace(" 00:5", " 01:5"),  # an hour later
        LONG.replace("loss: 8.000", "loss: 7.000"),
    ],
    ids=["a line more", "no end", "cut", "other dates", "another loss"],
)
def test_an_edited_log_still_belongs_to_the_same_run(edited: str, write: Callable[..., Path], wording: Wording) -> None:
    path, other = write("a.txt", LONG), write("b.txt", edited)
    with (
        pytest.raises(LogFormatError, match=f"{other}: .* same run as {path}") as error,
        open_arms(([str(path)], [str(other)])),
    ):
        pass
    wording("errors", error.value)


def test_equally_printed_steps_show_no_common_run(write: Callable[..., Path]) -> None:
    alike = re.sub(r"seconds: [\d.]+", "seconds: 0.100", LONG)
    with open_arms(([str(write("a.txt", alike))], [str(write("b.txt", "another host\n" + alike))])) as arms:
        assert len(arms.baseline) == len(arms.candidate) == 1


@pytest.mark.flows
def test_fifty_logs_of_each_arm(write: Callable[..., Path], tmp_path: Path) -> None:
    sides = [
        [str(write(f"{arm}-{n}.txt", timed(n, loss))) for n in range(50)] for arm, loss in (("a", 8.0), ("b", 8.1))
    ]
    with open_arms((sides[0], sides[1])) as arms:
        records = archive(arms, Store(tmp_path / "out"))
    assert arms.names == ("a", "b")
    assert len(compare_pair(records, case="logs", aa=False).baseline.runs) == 50


@pytest.mark.parametrize(
    ("names", "case", "verdict", "trains"),
    [
        (("Linen", "NNX"), "03_dropout", "unknown", "--case 03_dropout --until-decided"),
        (("nnx", "linen"), "03_dropout", "regressed", "--case 03_dropout"),
        # one device cannot run it
        (("linen", "nnx"), "12_pipeline", "unknown", "--case 12_pipeline --target cpu-8 --until-decided"),
        (("main", "branch"), "03_dropout", "unknown", ""),
        (("linen", "nnx"), "logs", "unknown", ""),  # not one of our cases
    ],
)
def test_linen_and_nnx_are_trained_here_and_other_logs_are_read_again(
    names: tuple[str, str], case: str, verdict: Verdict, trains: str, write: Callable[..., Path], tmp_path: Path
) -> None:
    record = compare_pair(records_of([write("a 1.log"), write("b 1.log", timed(5))], tmp_path), case=case, aa=False)
    sides = {
        side: getattr(record, side).replace(name=name)
        for side, name in zip(("baseline", "candidate"), names, strict=True)
    }
    again = ["maxview", "ingest"]
    step = next_of_logs(record.replace(**({"verdict": verdict} | sides)), again, [])
    words = list(step.argv) if step is not None else []
    assert words == (["maxview", "compare", "linen-vs-nnx", *shlex.split(trains)] if trains else again)
    assert next_of_logs(record.replace(verdict="same"), again, []) is None  # nothing is unknown


def test_logs_that_cannot_be_compared_ask_for_no_repeat(
    make_run: Callable[..., RunRecord], compare: Callable[..., ComparisonRecord]
) -> None:
    """Both are one commit: no further run of either changes that, and no command is offered."""
    losses = ((9.0, 8.5, 8.0, 7.5, 7.25, 7.0), (9.0, 8.5, 8.0, 7.5, 7.2, 6.9))
    loud = {"environment": Environment(jax="0.12.0", backend="cpu", device_kind="cpu")}
    arms = zip(("main", "branch"), losses, strict=True)
    runs = [make_run(arm, losses=curve, reading=loud) for arm, curve in arms]
    record = compare(*runs).replace(comparison="ingest")
    assert record.headline.startswith("not comparable: ")
    step = next_of_logs(record, ["maxview", "ingest"], [])
    assert (step and step.kind, step and step.argv) == ("by hand", ())
    assert {"step_time_s", "loss_per_step"} <= {row.metric for row in record.rows if row.verdict == "unknown"}
    for row in record.rows:
        assert (row.runs_wanted, row.cost_text) == (None, "")
        assert "more time" not in row.reason
        assert "--repeats" not in row.reason


def test_the_runs_of_one_page_are_read_again_from_their_own_logs(write: Callable[..., Path], tmp_path: Path) -> None:
    paths = [write("a.log", timed(5)), write("b.log", timed(6))]
    records = records_of(paths, tmp_path)
    page = LogArguments(baseline=("page.txt",), candidate=("page.txt",))
    record = compare_pair(records, case="logs", aa=False, arguments=page)
    assert record.verdict == "unknown"
    words = shlex.split(record.next_command)
    assert "page.txt" not in words
    assert words[:5] == ["maxview", "ingest", "--baseline", records[0].log, "--candidate"]


def test_several_logs_are_one_pattern_if_it_matches_no_other_file(write: Callable[..., Path], tmp_path: Path) -> None:
    main = [str(write(f"main-{number}.log")) for number in (1, 2, 3)]
    branch = [str(write(f"branch-{number}.log")) for number in (1, 2)]
    assert name_logs(main, branch[:1]) == ["--baseline", f"{tmp_path}/logs/main-*.log", "--candidate", branch[0]]
    assert name_logs(main[:2], branch) == ["--baseline", *main[:2], "--candidate", f"{tmp_path}/logs/branch-*.log"]
    assert name_logs(["gs://b/1", "gs://b/2"], branch[:1])[1:3] == ["gs://b/1", "gs://b/2"]


@pytest.mark.parametrize(("evidence", "again"), [("one run of each", ["maxview"]), ("3 runs of each", [])])
def test_a_settled_difference_of_logs_is_not_read_again(
    evidence: str, again: list[str], write: Callable[..., Path], tmp_path: Path
) -> None:
    paths = [write("a.log"), write("b.log", log_text(losses=(9.0, 8.5, 7.0)))]
    record = compare_pair(records_of(paths, tmp_path), case="logs", aa=False)
    rows = tuple(row.replace(evidence=evidence) for row in record.rows)
    assert record.verdict == "changed"
    step = next_of_logs(record.replace(rows=rows), ["maxview"], [])
    assert step is not None
    assert list(step.argv) == again


def test_the_command_after_logs_reads_them_and_gives_the_same_verdict(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    paths = [write("a 1.log"), write("b 1.log", log_text(code=137))]
    record = compare_pair(records_of(paths, tmp_path / "out"), case="03_dropout", aa=False)
    program, *words = shlex.split(record.next_command)
    assert (program, record.has_died) == ("maxview", True)
    command, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    assert command.__name__ == "ingest"
    options = bound.arguments["options"]
    assert (options.case, options.out) == ("03_dropout", str(tmp_path / "out"))
    with open_arms(assign_sides((), options.baseline, options.candidate), aa=options.aa) as arms:
        again = compare_pair(archive(arms, Store(tmp_path / "again")), case=options.case, aa=options.aa)
    assert (again.verdict, again.has_died) == (record.verdict, True)


def test_an_unknown_set_of_tolerances_is_refused(
    write: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call_command(["ingest", str(write("a.txt")), str(write("b.txt")), "--tolerances", "other-draw"]) == 2
    assert "did you mean 'other-draws'?" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("content", [b"", b"\x00\x01\x02\xff" * 100, b"nothing to see here\n" * 10])
def test_a_file_that_is_not_a_training_log_is_refused_by_name(
    content: bytes, write: Callable[..., Path], tmp_path: Path
) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_bytes(content)
    with pytest.raises(LogFormatError, match=r"bad\.txt"):
        read_pair([write("good.txt"), bad])


def test_a_missing_file(write: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.txt"):
        read_pair([write("good.txt"), tmp_path / "none.txt"])


# ---------------------------------------------------------------- archiving


def test_the_archive_outlives_the_logs(write: Callable[..., Path], tmp_path: Path) -> None:
    paths = [write("a.txt"), write("b.txt", log_text(losses=(9.0, 8.5, 7.0)))]
    records = records_of(paths, tmp_path / "out")
    for path, record in zip(paths, records, strict=True):
        assert Path(record.log).read_bytes() == path.read_bytes()
        path.unlink()
    runs = list(Store(tmp_path / "out").runs())
    assert {repr(run.read_record()) for run in runs} == {repr(record) for record in records}
    assert not list((tmp_path / "out").rglob("*.partial"))


def test_ingesting_again_changes_nothing(write: Callable[..., Path], tmp_path: Path) -> None:
    paths = [write("a.txt"), write("b.txt", log_text(losses=(9.0, 8.5, 7.0)))]
    first = records_of(paths, tmp_path / "out")
    again = records_of(paths, tmp_path / "out")
    assert [record.log for record in first] == [record.log for record in again]
    assert compare_pair(first, case="x", aa=False).id == compare_pair(again, case="x", aa=False).id


def test_a_changed_log_is_another_run(write: Callable[..., Path], tmp_path: Path) -> None:
    path, other = write("a.txt"), write("b.txt", log_text(losses=(9.0, 8.5, 7.0)))
    first = records_of([path, other], tmp_path / "out")
    write("a.txt", log_text(losses=(9.0, 8.5, 7.5)))
    again = records_of([path, other], tmp_path / "out")
    assert first[0].log != again[0].log
    assert first[1].log == again[1].log


@pytest.mark.parametrize("name", ["feat/../../../x", "a b;rm -rf", "日本", "." * 80, "-" * 300])
def test_a_name_cannot_leave_the_archive(name: str, write: Callable[..., Path], tmp_path: Path) -> None:
    pair = read_pair([write("a.txt"), write("b.txt")])
    strange = pair.baseline[0].replace(reading=pair.baseline[0].reading.replace(name=name))
    out = tmp_path / "out"
    records = archive(pair.replace(baseline=(strange,), names=(name, "b")), Store(out))
    assert Path(records[0].log).resolve().parent.parent == (out / "runs").resolve()
    assert records[0].arm == name


# ---------------------------------------------------------------- deaths and ends


def test_a_killed_run_has_its_cause(write: Callable[..., Path], tmp_path: Path, wording: Wording) -> None:
    paths = [write("a.txt"), write("b.txt", log_text(code=137))]
    record = compare_pair(records_of(paths, tmp_path / "out"), case="logs", aa=False)
    cause = record.candidate.cause_of_death
    assert cause is not None
    assert "signal 9 (SIGKILL)" in cause.message
    wording("findings", cause.message)
    assert paths[1].read_text().splitlines()[cause.line - 1] == "EXIT_CODE=137"
    assert record.verdict == "regressed"
    # after a fix, the log of the repeated run replaces this one
    logs = (record.baseline.logs[0], record.candidate.logs[0])
    assert record.next_command.startswith(
        shlex.join(["maxview", "ingest", "--baseline", logs[0], "--candidate", logs[1]])
    )


def test_a_cut_log_is_not_a_death(write: Callable[..., Path], tmp_path: Path) -> None:
    paths = [write("a.txt"), write("b.txt", log_text(code=None))]
    record = compare_pair(records_of(paths, tmp_path / "out"), case="logs", aa=False)
    assert "incomplete-log" in {finding.kind for finding in record.findings}
    assert record.candidate.cause_of_death is None
    assert record.verdict != "regressed"


# ---------------------------------------------------------------- the founding documents


@seeds
def test_the_single_line_log_against_a_page(tmp_path: Path) -> None:
    folder = Path(os.environ["MAXVIEW_SEEDS"])
    (single,) = folder.glob("001_*.txt")
    records = records_of([single, single], tmp_path)
    record = compare_pair(records, case="04_int8", aa=True)
    values = {row.metric: row.baseline_text for row in record.rows}
    assert (values["final_loss"], values["tflops_per_device"], values["tokens_per_s"]) == ("8.1740", "59.366", "8948.3")
    assert values["avg_step_time_s"] == "3.394"
    assert values["memory_percent"] == "1.41"  # 0.44 of 31.25 GB on TPU_16, the fullest
    assert {row.difference_text for row in record.rows} <= {"0", "—"}


@seeds
def test_a_page_with_one_log_missing(tmp_path: Path) -> None:
    (path,) = Path(os.environ["MAXVIEW_SEEDS"]).glob("000_*.txt")
    text = path.read_text()
    cut = tmp_path / "page.txt"
    cut.write_text(text[: text.rindex("XPK Start:")])  # the table promises two
    with pytest.raises(LogFormatError, match=r"page\.txt"):
        read_pair([cut])
