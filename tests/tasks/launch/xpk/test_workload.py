"""Names, the one line of bash, and the arguments of xpk, for arbitrary cases, arms and values."""

import base64
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.backends.xpk import Xpk
from configs.errors import ConfigError
from tasks.launch.cluster.naming import attempt_of, family_of, name_attempt
from tasks.launch.xpk.workload import create_argv, quote, shell_line, xpk_environment
from tasks.records.plan import RunPlan
from tasks.resolve.plans import Request, resolve

pytestmark = pytest.mark.flows

NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")  # xpk 1.16's rule
SETTINGS = Xpk(cluster="c", project="p", zone="us-east5-b", tpu_type="v6e-32", image="gcr.io/p/t:1")


def plan_of(**changes: object) -> RunPlan:
    fields: dict[str, object] = {"case": "03_dropout", "arm": "linen", "repeat": 0, "identity": "ab", "directory": "/o"}
    return RunPlan.model_construct(**(fields | {"environment": {}, "argv": ("true",)} | changes))  # type: ignore[arg-type]


names = st.text(min_size=1, max_size=64)


@given(case=names, arm=names, repeat=st.integers(0, 99), attempt=st.integers(1, 9999))
def test_xpk_accepts_every_name(case: str, arm: str, repeat: int, attempt: int) -> None:
    family = family_of(plan_of(case=case, arm=arm, repeat=repeat))
    name = name_attempt(family, attempt)
    assert NAME.fullmatch(name)
    assert len(name) <= 40  # xpk's limit
    assert len(f"{name}-slice-job-255-9999-abcde") <= 63  # the longest pod name that JobSet derives from it
    assert attempt_of(name, family) == attempt


def test_a_name_contains_case_and_arm() -> None:
    assert family_of(plan_of()).startswith("c03-dropout-linen-r0-")


def test_different_runs_have_different_names() -> None:
    long = "x" * 60
    plans = [
        plan_of(),
        plan_of(identity="ac"),
        plan_of(directory="/p"),
        plan_of(case=long),
        plan_of(case=long, identity="ac"),
    ]
    assert len({family_of(plan) for plan in plans}) == len(plans)


def test_an_attempt_of_another_workload_is_ignored() -> None:
    assert attempt_of("c-linen-0123456789", "c-nnx-0123456789") is None
    assert attempt_of("c-nnx-0123456789-b2", "c-nnx-0123456789") is None


@given(st.text().filter(lambda text: "\0" not in text))
def test_every_word_survives_bash_and_yaml_on_one_line(word: str) -> None:
    quoted = quote(word)
    assert quoted.isascii()
    assert "\n" not in quoted


HOSTILE = [
    "it's",
    '"x"',
    "$HOME `id` $(id)",
    "a\nb",
    "# no comment",
    "a | b; c & d",
    "é\x1b[31m\t",
    "\\",
    "%s {x} {{y}}",
    "",
]


def test_hostile_words_survive_bash() -> None:
    code = (
        "import sys; sys.stdout.buffer.write(b'\\0'.join(w.encode('utf-8', 'surrogateescape') for w in sys.argv[1:]))"
    )
    line = " ".join(quote(word) for word in (sys.executable, "-c", code, *HOSTILE))
    result = subprocess.run(["bash", "-c", f"({line}) & wait $!"], capture_output=True, check=True, timeout=60)
    assert result.stdout.decode().split("\0") == HOSTILE


def test_the_line_unpacks_the_config_and_becomes_the_trainer() -> None:
    plan = plan_of(environment={"A": "b c"}, argv=("python", "-m", "model.train", "/tmp/maxview/config.yml"))
    line = shell_line(plan, "steps: 3  # é\n", ("--continue-from", "/a b"))
    assert "\n" not in line
    before, _, command = line.rpartition(" && exec ")
    assert command == (
        "env PYTHONUNBUFFERED=1 'A=b c' python -m model.train /tmp/maxview/config.yml --continue-from '/a b'"
    )
    packed = re.search(r"echo (\S+) \| base64 -d > /tmp/maxview/config.yml", before)
    assert packed is not None
    assert base64.b64decode(packed[1]).decode() == "steps: 3  # é\n"


def test_the_arguments_of_xpk() -> None:
    settings = SETTINGS.replace(num_slices=2, argv=("uvx", "xpk==1.16.0"))
    argv = create_argv(plan_of(), settings, "a-name", "the command")
    assert argv[:4] == ["uvx", "xpk==1.16.0", "workload", "create"]
    assert "--num-slices=2" in argv
    assert argv[-2:] == ["--max-restarts=0", "--command=the command"]
    assert "--quiet" not in argv  # it would consent to overwriting
    environment = xpk_environment({"A": "b"})
    assert environment == {
        "A": "b", "TELEMETRY_ENABLED": "false", "DEPENDENCY_AUTO_DOWNLOAD": "false", "PIP_NO_INDEX": "1",
    }  # fmt: skip


@pytest.mark.parametrize("word", ["c; rm -rf /", "$(id)", "a b", "--flag", "", "a'b", "a\nb"])
def test_no_setting_can_inject_shell_code(word: str) -> None:
    for key in ("cluster", "project", "image", "tpu_type", "namespace"):
        with pytest.raises(ValueError, match=key):
            Xpk.model_validate(SETTINGS.model_dump() | {key: word})


def test_a_plan_for_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request(comparison="linen-vs-nnx", target="v6e-32")
    variables = {"MAXVIEW_CLUSTER": "c", "MAXVIEW_PROJECT": "p", "MAXVIEW_ZONE": "us-east5-b", "MAXVIEW_IMAGE": "i:1"}
    for name in variables:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(
        ConfigError, match=r"not set: \$MAXVIEW_CLUSTER, \$MAXVIEW_PROJECT, \$MAXVIEW_ZONE, \$MAXVIEW_IMAGE"
    ):
        resolve(request, tmp_path)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    plans = resolve(request, tmp_path)
    assert {plan.backend for plan in plans} == {"jobset"}
    assert {plan.launch.image for plan in plans if plan.launch is not None} == {"i:1"}
    assert all(plan.argv == ("python", "-m", "model.train", "/tmp/maxview/config.yml") for plan in plans)
    before = [plan.identity for plan in plans]
    monkeypatch.setenv("MAXVIEW_IMAGE", "i:2")
    assert not set(before) & {plan.identity for plan in resolve(request, tmp_path)}
