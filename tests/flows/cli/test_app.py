"""Bad input on the command line: one clear message with the remedy, exit status 2, nothing half-written."""

import contextlib
import json
import os
import pty
import pwd
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from flows.cli.app import COMMANDS, EXAMPLES, app, call_command, read_typed

pytestmark = pytest.mark.flows

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    """The message of a command that is refused before anything was written."""
    assert call_command(words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Traceback" not in shown.err
    assert not Path("maxview-out").exists()
    return " ".join(shown.err.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "linen-vs-nn"], "unknown comparison 'linen-vs-nn' (did you mean 'linen-vs-nnx'?)"),
        (["compare", "linen-vs-nnx", "--case", "dropout"], "unknown case 'dropout' (did you mean '03_dropout'?)"),
        (["compare", "linen-vs-nnx", "--target", "cpu8"], "unknown target 'cpu8' (did you mean 'cpu-8'?)"),
        (["compare", "linen-vs-nnx", "--model", "tinny"], "unknown model 'tinny' (did you mean 'tiny'?)"),
        (["compare", "linen-vs-nnx", "--set", "step=3"], "unknown key 'step' (did you mean 'steps'?)"),
        (["compare", "linen-vs-nnx", "--set", "steps"], "'steps' is not key=value"),
        (
            ["compare", "linen-vs-nnx", "--set", "steps=many"],
            "command line: steps: should be a valid integer, got 'many'",
        ),
        (["compare", "linen-vs-nnx", "--set", "steps=0"], "greater than 0, got 0"),
        (
            ["compare", "linen-vs-nnx", "--set", "base_emb_dim=32"],
            "is set by the model file too (configs/models/tiny.yml",
        ),
        (["compare", "linen-vs-nnx", "--repeats", "0"], "--repeats must be 1 to 100, got 0"),
        (["compare", "linen-vs-nnx", "--repeats", "three"], "--repeats"),
        (["compare", "linen-vs-nnx", "--budget", "10m"], "--budget limits --until-decided: give both"),
        (["compare", "linen-vs-nnx", "--interleave", "soon"], "type for example 90s, 10m or 2h, or off"),
        (["compare", "linen-vs-nnx", "--only", "time,speed"], "--only: 'speed' is no experiment: function, time"),
        (["compare", "linen-vs-nnx", "--until-decided", "--budget", "soon"], "type for example 90s, 10m or 2h"),
        (["compare", "linen-vs-nnx", "--until-decided", "--max-repeats", "0"], "--max-repeats must be 1 to 100, got 0"),
        (["nightly", "--comparison", "a b/c"], "unknown comparison 'a b/c'; a name begins with a letter or digit"),
        (["nightly", "--comparison", "linen"], "unknown comparison 'linen' (did you mean 'linen-vs-nnx'?); there are:"),
        (["nightly", "--case", "dropout"], "unknown case 'dropout' (did you mean '03_dropout'?)"),
        (["nightly", "--set", "steps"], "'steps' is not key=value"),
        (["nightly", "--repeats", "0"], "--repeats must be 1 to 100, got 0"),
        (["compare", "linen-vs-nnx", "--out", ""], "--out is empty: name a folder"),
        (
            ["compare", "linen-vs-nnx", "--set", "ici_fsdp_parallelism=16"],
            "ici_fsdp_parallelism=16: ",
        ),
        (["resolve", "01_base", "--set", "hardware=gpu"], "command line: hardware=gpu, but the devices are cpu"),
        (["compare", "linen-vs-nnx", "--set", "learning_rate=1e300"], "learning_rate: is infinite in float32"),
        (["compare"], "name a comparison: "),
        (["compare", "01_base"], "01_base is a case: maxview compare linen-vs-nnx --case 01_base"),
        (["compare", "linen-vs-nnx", "--only", "function", "time"], "did you mean --only function,time?"),
        (["compare", "linen-vs-nnx", "--only", "functions"], "'functions' is no experiment (did you mean 'function'?)"),
        (["compare", "linen-vs-nnx", "--case", "03"], "unknown case '03' (did you mean '03_dropout'?)"),
        (["compair", "linen-vs-nnx"], "did you mean 'compare'?"),
        (["compare", "linen-vs-nnx", "--cases", "01_base"], "--case"),
        (["resolve", "01_base", "--arm", "nxx"], "unknown arm 'nxx' of linen-vs-nnx (did you mean 'nnx'?)"),
        (["ingest", "no-such.log"], "no-such.log"),
        (["scrape", "no-such.log"], "no-such.log"),
        (["verify", "no-such-folder"], "no-such-folder"),
        (["verify", "x", "--record", "--check"], "--record and --check exclude each other"),
    ],
)
def test_invalid_words(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert message in refused(capsys, words)


def test_an_output_folder_that_is_not_writable(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    message = refused(capsys, ["compare", "linen-vs-nnx", "--out", str(tmp_path / "file" / "out")])
    assert "cannot be written" in message
    assert "--out" in message


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.log", b"", "empty"),
        ("binary.log", bytes(range(256)) * 40, "binary"),
        ("shopping.log", b"milk\nbread\n", "no training log"),
        (
            "one.log",
            b"completed step: 0, seconds: 1.000, loss: 3.000\ncompleted step: 1, seconds: 1.000, loss: 2.000\n",
            "OTHER",
        ),
    ],
)
def test_logs_that_cannot_be_compared(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    shown = refused(capsys, ["ingest", name])
    assert message in shown
    assert name in shown


@pytest.mark.parametrize("make", ["empty folder", "not a checkpoint"])
def test_folders_without_checkpoints(capsys: pytest.CaptureFixture[str], tmp_path: Path, make: str) -> None:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    if make == "not a checkpoint":
        (folder / "notes.txt").write_text("hello")
    assert str(folder) in refused(capsys, ["verify", str(folder)]).replace(" ", "")


def test_a_save_that_was_never_committed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints" / "0.orbax-checkpoint-tmp"
    (folder / "items").mkdir(parents=True)
    (folder / "_CHECKPOINT_METADATA").write_text('{"commit_timestamp_nsecs": null}')
    assert call_command(["verify", str(folder)]) == 2
    shown = " ".join(capsys.readouterr().out.split())
    assert "not sound" in shown
    assert "is an unfinished save" in shown


def test_resolve_shows_where_a_value_was_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert call_command(["resolve", "03_dropout", "--set", "steps=7"]) == 0
    lines = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert lines["steps"][0] == "7"
    assert lines["max_target_length"][:2] == ["128", "configs/cases/03_dropout.yml:4"]
    root = Path(__file__).parents[3]
    assert "max_target_length" in (root / "configs/cases/03_dropout.yml").read_text().splitlines()[3]


def test_resolve_takes_a_comparison_for_its_first_case(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for words in (["01_base", "--comparison", "main-vs-branch"], ["main-vs-branch"]):
        assert call_command(["resolve", *words]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]


@pytest.mark.parametrize(
    ("target", "reported"),
    [("v6e-32", "flash (autoselected: on a TPU)"), ("cpu", "dot_product (autoselected: hardware is cpu)")],
)
def test_resolve_shows_the_selected_attention_and_its_reason(
    target: str, reported: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call_command(["resolve", "01_base", "--target", target]) == 0
    assert f"Attention is computed by {reported}" in capsys.readouterr().out
    assert call_command(["resolve", "01_base", "--target", target, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["attention"]["chosen"] == reported


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["scrape", "--json", "no.log"], "no.log: cannot be read"),
        (["noise", "fit", "--json", "no.log", "other.log"], "no.log: cannot be read"),
        (["bless", "--json", "linen-vs-nnx", "--reason", "", "--out", "no"], "--reason is empty"),
        (["invariants", "--json", "--trainer", "no"], "unknown trainer 'no'; there are: maxview"),
    ],
)
def test_an_error_is_one_line_of_json(words: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call_command(words) == 2
    printed = capsys.readouterr()
    found = json.loads(printed.err)
    assert found["exit_status"] == 2
    assert named in found["error"]
    assert not printed.out


def test_cases_lists_all_cases_and_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert call_command(["cases"]) == 0
    shown = capsys.readouterr().out
    for path in (Path(__file__).parents[3] / "configs" / "cases").glob("*.yml"):
        assert path.stem in shown


@pytest.mark.parametrize("words", [["doctor"], ["history"], ["cases"], ["resolve", "01_base"]])
def test_read_only_commands_create_no_output_folder(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    call_command(words)
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    if words == ["doctor"]:
        assert f"{Path('maxview-out').absolute()}: can be written, " in shown.out
    assert not Path("maxview-out").exists()


def test_doctor_names_a_home_of_prefect_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "file" / "prefect"))
    assert call_command(["doctor"]) == 2
    said = f"✗ {tmp_path}/file/prefect, Prefect's home, cannot be written: set PREFECT_HOME"
    assert said in capsys.readouterr().out


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert "HOME is not set" in refused(capsys, ["compare", "linen-vs-nnx"])


def test_the_version_is_the_packages_own(capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    assert call_command(["--version"]) == 0
    assert capsys.readouterr().out == f"{project['version']}\n"


def test_every_command_has_two_examples_that_parse() -> None:
    names = {name for name in app if not name.startswith("-")} - {"completion", "site"}
    names |= {f"site {name}" for name in app["site"] if not name.startswith("-")}
    assert names == EXAMPLES.keys()
    for name, lines in EXAMPLES.items():
        assert len(set(lines)) == 2
        for line in lines:
            _, bound, _ = app.parse_args(shlex.split(f"{name} {line}"), exit_on_error=False, print_error=False)
            options = [word for word in map(str, bound.args) if word.startswith("--")]
            assert not options, "an option that the command lacks was taken for an argument"


@pytest.mark.parametrize(
    ("words", "status"), [(["--help"], 0), (["--version"], 0), (["cases"], 0), (["compar"], 2), (["scrape"], 2)]
)
def test_help_lists_and_typos_need_none_of_the_large_packages(words: list[str], status: int) -> None:
    code = (
        "import sys\n"
        "from flows.cli.app import call_command\n"
        f"status = call_command({words!r})\n"
        "print(status, [name for name in ('pydantic', 'polars', 'prefect', 'jax') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == f"{status} []"


def test_the_help_groups_the_commands_and_each_has_its_own_page(capsys: pytest.CaptureFixture[str]) -> None:
    # in a process of its own: a command that has run shows its own text
    shown = subprocess.run([sys.executable, "-m", "flows.cli", "--help"], capture_output=True, text=True).stdout
    places = [shown.index(word) for word in ("Start", "compare", "ingest", "Why", "explain", "Operate", "nightly")]
    assert places == sorted(places)
    for name, (_, _, summary) in COMMANDS.items():
        assert summary in shown, "a summary fits on one line of 80 columns"
        assert call_command([name, "--help"]) == 0
        own = " ".join(capsys.readouterr().out.replace("│", "").split())
        doc = app[name].default_command.__doc__ if app[name].default_command else summary
        assert doc.strip().splitlines()[0] in own


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("compar", "there is no command compar (did you mean 'compare'?); type: maxview --help"),
        ("-x", "there is no option -x without a command; type: maxview --help"),
        ("site buld", 'unknown command "buld" (did you mean "build"?); type: maxview site --help'),
        ("bisect", f"bisect needs NAME; for example: maxview bisect {EXAMPLES['bisect'][0]}"),
        ("bisect main-vs-branch", f"bisect needs --good; for example: maxview bisect {EXAMPLES['bisect'][0]}"),
        ("scrape", "scrape needs LOGS; for example: maxview scrape train.log"),
        ("compare --cse x", "unknown option --cse (did you mean --case?); type: maxview compare --help"),
        ("compare a b", "compare does not take 'b'; type: maxview compare --help"),
        ("compare a --repeats x", "--repeats: input should be a valid integer, got 'x'"),
    ],
)
def test_wrong_arguments_are_one_line_with_what_to_type(
    capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    assert refused(capsys, line.split()) == f"maxview: {message}"


def test_the_help_of_a_part_of_the_site_shows_its_own_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert call_command(["site", "serve", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "maxview site serve --port 0" in shown
    assert "maxview site build" not in shown


def test_a_terminal_shows_a_sign_of_life_before_anything_is_loaded() -> None:
    reading, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "flows.cli", "--version"],
        stdout=subprocess.DEVNULL,
        stderr=terminal,
        env=os.environ | {"TERM": "xterm"},
    ) as command:
        os.close(terminal)
        shown = b""
        with contextlib.suppress(OSError):  # the end of a terminal
            while piece := os.read(reading, 65536):
                shown += piece
        assert command.wait() == 0
    before, sign, after = shown.partition("…\r".encode())
    assert sign
    assert b"cyclopts" not in before
    assert b"cyclopts" in after
    assert shown.endswith(b"\x1b[K")


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (["compare", "--only", "time", "--", "python", "t.py", "--", "x"], ["compare", "NAME", "--only", "time"]),
        (["compare", "--steps", "9", "--", "python", "t.py"], ["compare", "NAME"]),
        (["compare", "linen-vs-nnx"], ["compare", "linen-vs-nnx"]),
        (["scrape", "--", "-"], ["scrape", "--", "-"]),
        (
            ["invariants", "--left", "-a 1", "--right", "-a 2", "--full", "--", "python", "t.py"],
            ["invariants", "--trainer", "command", "--twin", "/twin.yml", "--with", "/python", "--full"],
        ),
    ],
)
def test_a_command_after_two_dashes_is_a_comparison(
    monkeypatch: pytest.MonkeyPatch, words: list[str], read: list[str]
) -> None:
    from tasks.resolve import typed_command

    typed = words[words.index("--") + 1 :] if "--" in words else []
    given: list[object] = []

    def write(words: list[str], steps: int | None, *, baseline: str) -> str:
        given.append((words, steps, baseline))
        return "NAME"

    def write_twin(words: list[str], left: str, right: str) -> tuple[str, str]:
        given.append((words, left, right))
        return "/twin.yml", "/python"

    monkeypatch.setattr(typed_command, "write_typed", write)
    monkeypatch.setattr(typed_command, "write_typed_twin", write_twin)
    assert read_typed(list(words)) == read
    if words[0] == "compare" and typed:
        assert given == [(typed, 9 if "--steps" in words else None, "")]
    if words[0] == "invariants":
        assert given == [(typed, "-a 1", "-a 2")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "linen-vs-nnx", "--", "python"], "'linen-vs-nnx' names a comparison"),
        (["compare", "--steps", "x", "--", "python"], "--steps must be the number of steps of each run, got 'x'"),
        (["compare", "--steps", "--", "python"], "--steps must be the number of steps of each run, got ''"),
    ],
)
def test_a_typed_command_with_wrong_words_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_typed(words)
