"""Hostile stores and checkpoints: links, edited records, paths that lead elsewhere."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from configs.errors import ConfigError
from configs.read import read_yaml
from configs.verdict_rules import load_verdict_rules
from flows.cli.app import call_command
from tasks.diff.compare_logs import archive
from tasks.ingest.given_logs import read_pair
from tasks.ingest.run_record import read_metrics
from tasks.launch.backend import LaunchError
from tasks.launch.logs import open_locked
from tasks.publish.site.comparison_pages import publish_comparison
from tasks.records.plan import RunPlan
from tasks.store.atomic import StoreError
from tasks.store.directories import RunDirectory
from tasks.store.store import open_store
from tasks.verify.array_index import parse_array
from tests.sides import compare_sides
from tests.wording.sentences import Wording


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_a_record_cannot_name_another_log(write_log: Callable[..., Path], tmp_path: Path) -> None:
    """A page does not use the log path of an edited record.json."""
    secret = tmp_path / "secret"
    secret.write_text("completed step: 0, seconds: 1.0, loss: 1.0 PRIVATE\n")
    store = open_store(tmp_path / "out")
    archive(read_pair([write_log("a.txt"), write_log("b.txt")]), store)
    for directory in store.runs():
        edit(directory.record, lambda document: document["record"].update(log=str(secret)))
    records = [record for directory in store.runs() if (record := directory.read_record()) is not None]
    assert [record.log for record in records] == [str(directory.log) for directory in store.runs()]
    compared = compare_sides(
        records[:1], records[1:], comparison="c", case="x", target="t", rules=load_verdict_rules("linen-vs-nnx", "cpu"),
    )  # fmt: skip
    page = publish_comparison(compared, store)
    assert all("PRIVATE" not in path.read_text() for path in page.parent.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "text",
    [
        '{"document": "maxview run record", "version": 1, "record": ' + "[" * 100_000,
        '{"document": "maxview run record", "version": ' + "9" * 10_000 + "}",
        '{"document": "maxview run record", "version": 1, "record": {}, "frames": {}, "not_finite": ["/../../x"]}',
        "[]",
        "\0",
    ],
)
def test_a_damaged_record_is_refused_with_its_remedy(text: str, tmp_path: Path) -> None:
    directory = open_store(tmp_path / "out").run("r").create()
    directory.record.write_text(text)
    with pytest.raises(StoreError, match="move it away to have it made again"):
        directory.read_record()


@pytest.mark.parametrize("line", ['{"step": ' + "9" * 10_000 + "}", "[" * 100_000, "[1]", "NaN"])
def test_damaged_metrics_are_refused_with_their_line(line: str, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(ValueError, match=r"metrics\.jsonl:1: not a JSON object"):
        read_metrics(path)


@pytest.mark.parametrize("what", ["", "checkpoints", "manifests"])
def test_a_link_in_a_run_folder_is_not_followed(what: str, untouched: Path) -> None:
    beside = untouched.parent / "beside"
    run = open_store(untouched / "out").run("r")
    place = run.path / what if what else run.path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(beside, target_is_directory=True)
    with pytest.raises(StoreError, match="is a link to another place: remove it"):
        run.create()


def test_a_log_that_is_a_link_is_not_written_through(untouched: Path) -> None:
    log = untouched / "log.txt"
    log.symlink_to(untouched.parent / "beside" / "precious")
    with pytest.raises(LaunchError, match="cannot be written"):
        open_locked(log)


def test_records_replace_links(untouched: Path) -> None:
    run = RunDirectory(untouched / "r").create()
    run.config.symlink_to(untouched.parent / "beside" / "precious")
    run.write_config(RunPlan.model_construct(run_name="r", config={"steps": 1}, origins={}))
    assert not run.config.is_symlink()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("steps: !!python/object/apply:os.system ['touch ../owned']\n", None),
        ("a: " + "[" * 20_000, r"x\.yml:1: is nested too deeply"),
        ("a: " + "[\n" * 20_000, r"x\.yml:\d+: is nested too deeply"),
        ("- " * 20_000, r"x\.yml:1: is nested too deeply"),
        ("a: &a {<<: *a}\n", r"x\.yml:1: .*\*a stands inside its own anchor"),
        ("b: 1\na: &a [*a]\n", r"x\.yml:2: .*\*a stands inside its own anchor"),
        ("a: *missing\n", "not valid YAML"),
        ("? [x, y]\n: 1\n", None),
        ("{{ a }}: 1\n", None),
        ("- 1\n", "expected `key: value` lines"),
    ],
)
def test_a_config_file_is_data(text: str, problem: str | None, untouched: Path) -> None:
    path = untouched / "x.yml"
    path.write_text(text)
    if problem is None:
        assert list(read_yaml(path)) != []
    else:
        with pytest.raises(ConfigError, match=problem):
            read_yaml(path)


def test_special_files_are_refused_by_name_and_never_opened(
    untouched: Path,
    capsys: pytest.CaptureFixture[str],
    wording: Wording,
) -> None:
    os.mkfifo("pipe")
    Path("link").symlink_to("pipe")
    for name in ("pipe", "link", "/dev/zero"):
        for argv in (["scrape", name], ["nightly", "--config", name], ["verify", name]):
            assert call_command(argv) == 2, argv
            message = capsys.readouterr().err
            assert name in message
            assert "a pipe or a device" in message
    assert call_command(["scrape", "pipe"]) == 2
    message = capsys.readouterr().err
    assert "maxview scrape - < pipe" in message
    wording("errors", message)


def test_anchors_of_anchors_are_refused_in_time(untouched: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nine levels of ten: a billion laughs."""
    levels = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    path = untouched / "night.yml"
    path.write_text("\n".join(levels) + "\n")
    assert call_command(["nightly", "--config", str(path)]) == 2
    assert "its anchors (&x, *x) stand for more than" in capsys.readouterr().err


@pytest.mark.parametrize("shape", ["[1000000000000]", "[1000000, 1000000]"])
def test_an_array_of_endless_chunks_is_damage(shape: str) -> None:
    chunks = "[1]" if "," not in shape else "[1, 1]"
    text = f'{{"shape": {shape}, "chunks": {chunks}, "dtype": "<f4"}}'
    with pytest.raises(ValueError, match="chunks, more than the limit"):
        parse_array("params/w/.zarray", text)


@pytest.mark.parametrize("words", ["../../../../etc", "/etc", "/proc/self", "/dev/null", "file:///etc", "ext::sh"])
def test_a_path_without_checkpoints_is_refused(words: str, untouched: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call_command(["verify", "--record", words]) == 2
    assert "give" in capsys.readouterr().err
