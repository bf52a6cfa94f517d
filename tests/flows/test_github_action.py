"""The steps of `action.yml` as a runner executes them, in a pull request's clone, with GitHub on loopback."""

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

import pytest
from ruamel.yaml import YAML

from tests.standins.github import make_server

from .conftest import LOSS

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
EXPRESSION = re.compile(r"\$\{\{ (.*?) \}\}")


@pytest.fixture
def github() -> Iterator[Any]:
    server = make_server("secret")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def action(tmp_path: Path) -> Path:
    """The action's own clone; its environment is that of the tests."""
    folder = tmp_path / "action"
    folder.mkdir()
    for name in (".venv", "deployments"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def git(clone: Path, *words: str) -> str:
    words = ("git", "-c", "user.name=x", "-c", "user.email=x@localhost", *words)
    return subprocess.run(words, cwd=clone, check=True, capture_output=True, text=True).stdout.strip()


def run_step(step: dict[str, Any], known: dict[str, str], environment: dict[str, str], folder: Path) -> tuple[int, str]:
    """Run one step with the expressions of its variables replaced; return its exit status and output."""

    def evaluate(match: re.Match[str]) -> str:
        return next((value for name in match[1].split(" || ") if (value := known.get(name, ""))), "")

    own = {name: EXPRESSION.sub(evaluate, str(text)) for name, text in step.get("env", {}).items()}
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(words, cwd=folder, env=environment | own, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def compare(
    clone: Path,
    action: Path,
    github: Any,
    environment: dict[str, str],
    **inputs: str,
) -> tuple[int, str, dict[str, str]]:
    """Run the step *Compare* of a pull request; return its exit status, output and the outputs that it sets."""
    read = YAML(typ="safe").load(ROOT / "action.yml")
    given = {name: str(one.get("default", "")) for name, one in read["inputs"].items()} | inputs
    temporary = clone.parent / "runner"
    temporary.mkdir(exist_ok=True)
    outputs = temporary / "outputs"
    outputs.write_text("")
    known = {f"inputs.{name}": value for name, value in given.items()} | {
        "github.action_path": str(action), "github.repository": "team/trainer", "inputs.token": "secret",
        "github.event.pull_request.number": "7", "runner.temp": str(temporary),
        "github.event.pull_request.base.sha": git(clone, "rev-parse", "main"),
    }  # fmt: skip
    (step,) = [step for step in read["runs"]["steps"] if step.get("id") == "compare"]
    host = f"http://127.0.0.1:{github.server_address[1]}"
    paths = {"GITHUB_OUTPUT": str(outputs), "GITHUB_API_URL": host}
    status, text = run_step(step, known, environment | paths, clone)
    return status, text, dict(line.split("=", 1) for line in outputs.read_text().splitlines())


def test_a_pull_request_fails_at_the_line_that_changed_the_function(
    clone: Path,
    action: Path,
    github: Any,
    user_environment: dict[str, str],
) -> None:
    git(clone, "commit", "-qam", "another loss")
    git(clone, "checkout", "-qb", "feature")
    git(clone, "branch", "-qf", "main", "HEAD~1")
    environment = user_environment | {"PATH": os.environ["PATH"]}
    command = {"command": "python train.py --config 'tiny.json'", "only": "function"}

    status, text, outputs = compare(clone, action, github, environment, **command)
    assert status == 1, text
    assert outputs["verdict"] == "changed"
    assert any(re.match(r"::error file=loss\.py,line=5,title=maxview::.*", line) for line in text.splitlines()), text
    runner = clone.parent / "runner"
    (result,) = [
        one for one in json.loads((runner / "maxview.sarif").read_text())["runs"][0]["results"]
        if one["ruleId"] == "function"
    ]  # fmt: skip
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("loss.py", 5)
    failures = xml.parse(runner / "maxview-junit.xml").findall(".//testcase[failure]")
    assert "Function of the step" in {one.get("name") for one in failures}
    assert list(Path(outputs["pages"]).glob("comparisons/*/*/*/index.html"))
    (comment,) = github.comments
    assert "loss.py:5" in comment["body"]

    # the same words decide otherwise: a pull request that may change the function, and one whose gate is another
    assert compare(clone, action, github, environment, **command, **{"fail-on": "never"})[0] == 0
    assert compare(clone, action, github, environment, **command, **{"fail-on": "regressed"})[0] == 0
    assert len(github.comments) == 1  # updated
    status, text, _ = compare(clone, action, github, environment, **command, **{"fail-on": "sometimes"})
    assert status == 2
    assert "'sometimes' is none of" in text


@pytest.mark.by_hand
def test_a_pull_request_that_changes_a_comment_passes(
    clone: Path,
    action: Path,
    github: Any,
    user_environment: dict[str, str],
) -> None:
    git(clone, "checkout", "-qb", "feature")
    (clone / "loss.py").write_text(LOSS.replace("def loss_of", "# the loss of a batch\ndef loss_of"))
    git(clone, "commit", "-qam", "a comment")
    environment = user_environment | {"PATH": os.environ["PATH"]}
    given = {"command": "python train.py --config tiny.json", "only": "function", "comment": "false"}
    status, text, outputs = compare(clone, action, github, environment, **given)
    assert (status, outputs["verdict"]) == (0, "same"), text
    assert "::error" not in text
    assert github.comments == []
