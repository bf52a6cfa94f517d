"""The findings that make two arms incomparable, one at a time."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from configs.verdict_rules import load_effects
from tasks.diff.examine.arms import ArmRuns
from tasks.diff.examine.comparability import find_findings as find_all
from tasks.diff.examine.comparability import in_order
from tasks.records.compared_case import Finding
from tasks.records.log_reading import Coverage, Environment, Flops, UnreadLine
from tasks.records.run import RunRecord
from tasks.records.run_end import LogError
from tasks.records.shared_fields import Source
from tests.wording.sentences import Wording

type MakeRun = Callable[..., RunRecord]
type Find = Callable[..., dict[str, Finding]]

EFFECTS = dict(load_effects())


def find_findings(arms: tuple[ArmRuns, ArmRuns], **options: Any) -> list[Finding]:
    return in_order(find_all(arms, **({"effects": EFFECTS} | options)))


COMPLETE = Coverage(step_lines_seen=6, step_lines_parsed=6, complete=True)
ENVIRONMENT = Environment(
    jax="0.9.2", jaxlib="0.9.2", device_kind="TPU v6 lite", num_devices=32, mesh={"fsdp": 32}, process_index=0
)


@pytest.fixture
def find(arm_of: Callable[..., ArmRuns]) -> Find:
    """find(baseline, candidate): the findings by kind; no kind twice."""

    def findings(left: RunRecord, right: RunRecord, **options: Any) -> dict[str, Finding]:
        options = {"declared": frozenset({"pure_nnx"})} | options
        found = find_findings((arm_of(left), arm_of(right)), **options)
        assert len({finding.kind for finding in found}) == len(found)
        return {finding.kind: finding for finding in found}

    return findings


def test_arms_with_only_intended_differences_have_no_findings(make_run: MakeRun, find: Find) -> None:
    assert find(make_run("linen"), make_run("nnx")) == {}
    assert find(make_run("linen", plan={}), make_run("nnx", plan={})) == {}


# ---------------------------------------------------------------- commits


def test_two_branches_at_one_commit_block(make_run: MakeRun, find: Find) -> None:
    found = find(make_run("main", commit="574ad3fb9"), make_run("feat/x", commit="574ad3fb9"))
    assert found["same-commit"].effect == "blocks"
    assert "both sides are commit 574ad3fb9" in found["same-commit"].message
    assert [evidence.value for evidence in found["same-commit"].evidence] == ["574ad3fb9"] * 2


@pytest.mark.parametrize(
    ("left", "right", "options"),
    [
        (("main", "aaa"), ("feat/x", "bbb"), {}),  # a comparison of commits
        (("main", "aaa"), ("feat/x", None), {}),
        (("main", "aaa"), ("again", "aaa"), {"aa": True}),
        (("linen", "aaa"), ("nnx", "aaa"), {}),
        (("Linen", "aaa"), ("NNX", "aaa"), {}),
        (("linen", "aaa"), ("nnx", None), {}),
    ],
)
def test_expected_commits_give_no_finding(
    left: Any, right: Any, options: dict[str, Any], make_run: MakeRun, find: Find
) -> None:
    assert find(make_run(left[0], commit=left[1]), make_run(right[0], commit=right[1]), **options) == {}


def test_arms_that_differ_in_a_declared_key_may_share_a_commit(make_run: MakeRun, find: Find) -> None:
    left = make_run("full", plan={"config": {"remat_policy": "full"}})
    right = make_run("minimal", plan={"config": {"remat_policy": "minimal"}})
    assert find(left, right, declared=frozenset({"remat_policy"})) == {}
    assert set(find(left, left, declared=frozenset({"remat_policy"}))) == {"same-commit"}


@pytest.mark.parametrize("aa", [False, True])
def test_implementations_and_controls_with_two_commits_are_qualified(aa: bool, make_run: MakeRun, find: Find) -> None:
    names = ("main", "again") if aa else ("linen", "nnx")
    found = find(make_run(names[0], commit="aaa"), make_run(names[1], commit="bbb"), aa=aa)
    assert found["different-commits"].effect == "qualifies"


def test_commits_with_the_same_trainer_source_are_no_difference(make_run: MakeRun, find: Find) -> None:
    versions = {"jax": "1", "trainer source": "0123"}
    left = make_run("linen", commit="aaa", plan={"versions": versions})
    assert not find(left, make_run("nnx", commit="bbb", plan={"versions": versions}))
    other = make_run("nnx", commit="bbb", plan={"versions": versions | {"trainer source": "4567"}})
    assert find(left, other)["different-commits"].effect == "qualifies"


def test_a_dirty_checkout_is_noted(make_run: MakeRun, find: Find) -> None:
    found = find(make_run("linen", plan={}), make_run("nnx", plan={"dirty": True}))
    assert found["dirty-checkout"].effect == "note"
    assert [evidence.arm for evidence in found["dirty-checkout"].evidence] == ["nnx"]
    both = find(make_run("linen", plan={"dirty": True}), make_run("nnx", plan={"dirty": True}))
    assert [evidence.arm for evidence in both["dirty-checkout"].evidence] == ["linen", "nnx"]


# ---------------------------------------------------------------- software, hardware, work


@pytest.mark.parametrize(
    ("change", "kind", "effect", "words"),
    [
        ({"jax": "0.8.1"}, "jax-version", "qualifies", "different JAX versions (0.9.2 and 0.8.1)"),
        ({"jaxlib": "0.8.1"}, "jaxlib-version", "qualifies", "different jaxlib versions (0.9.2 and 0.8.1)"),
        ({"device_kind": "TPU v5"}, "device-kind", "blocks", "different devices (TPU v6 lite and TPU v5)"),
        ({"mesh": {"tensor": 4, "fsdp": 8}}, "mesh", "blocks", "different meshes (fsdp 32 and fsdp 8, tensor 4)"),
        ({"mesh": {}}, "mesh", "blocks", "different meshes (fsdp 32 and one device)"),
        ({"process_index": 7}, "host-process", "qualifies", "different host processes (0 and 7)"),
    ],
)
def test_every_difference_of_the_environment_is_a_separate_finding(
    change: dict[str, Any], kind: str, effect: str, words: str, make_run: MakeRun, find: Find
) -> None:
    left = make_run("linen", reading={"environment": ENVIRONMENT})
    right = make_run("nnx", reading={"environment": ENVIRONMENT.replace(**change)})
    found = find(left, right)
    assert set(found) == {kind}
    assert found[kind].effect == effect
    assert words in found[kind].message
    assert [evidence.arm for evidence in found[kind].evidence] == ["linen", "nnx"]


def test_two_jax_versions_are_reported_once_and_not_again_as_jaxlib(make_run: MakeRun, find: Find) -> None:
    older = ENVIRONMENT.replace(jax="0.8.1", jaxlib="0.8.1")
    left, right = (make_run(arm, reading={"environment": e}) for arm, e in (("linen", ENVIRONMENT), ("nnx", older)))
    assert set(find(left, right)) == {"jax-version"}


@pytest.mark.parametrize(
    ("tflops", "rate", "kinds"),
    [
        (1.6, 2000, {"device-count"}),  # the same batch on half the devices: each device does twice the work
        (1.61, 2000, {"device-count"}),  # 0.8 and 1.61 are printed with two decimals
        (0.8, 1000, {"device-count", "flops", "tokens"}),  # half the batch on half the devices
    ],
)
def test_work_is_that_of_all_devices(
    tflops: float, rate: float, kinds: set[str], make_run: MakeRun, find: Find
) -> None:
    left = make_run("linen", seconds=[1.0] * 6, reading={"environment": ENVIRONMENT})
    fewer = {"environment": ENVIRONMENT.replace(num_devices=16), "flops": Flops(total_tflops=tflops)}
    columns = {"tokens_per_s_per_device": [rate] * 6}
    found = find(left, make_run("nnx", seconds=[1.0] * 6, columns=columns, reading=fewer))
    assert set(found) == kinds
    assert found["device-count"].effect == "blocks"
    assert "different numbers of devices (32 and 16)" in found["device-count"].message


def test_a_value_missing_in_a_log_is_not_a_difference(make_run: MakeRun, find: Find) -> None:
    left = make_run("linen", reading={"environment": ENVIRONMENT, "source_file": "a.py:1"})
    assert find(left, make_run("nnx", reading={"environment": Environment(), "flops": Flops()})) == {}


@pytest.mark.parametrize(
    ("change", "kind", "effect"),
    [
        ({"reading": {"source_file": "metric_logger.py:185"}}, "source-lines", "qualifies"),
        ({"reading": {"flops": Flops(total_tflops=0.9)}}, "flops", "blocks"),
        ({"columns": {"total_weights": [2048] * 6}}, "tokens", "blocks"),
        ({"losses": (9.0, 8.5, 8.0)}, "steps", "qualifies"),
    ],
)
def test_different_work_is_not_comparable(
    change: dict[str, Any], kind: str, effect: str, make_run: MakeRun, find: Find
) -> None:
    left = make_run("linen", reading={"source_file": "metric_logger.py:196"})
    found = find(left, make_run("nnx", **change))
    assert set(found) == {kind}
    assert found[kind].effect == effect


# ---------------------------------------------------------------- facts of plans


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"versions": {"jax": "9", "flax": "0.12.11"}}, "package-version", "versions of flax (0.12.12 and 0.12.11)"),
        ({"versions": {"jax": "9"}}, "package-version", "versions of flax (0.12.12 and None)"),
        ({"environment": {"JAX_PLATFORMS": "tpu"}}, "environment-variable", "JAX_PLATFORMS differs (cpu and tpu)"),
        (
            {"config": {"steps": 9, "pure_nnx": True}},
            "config",
            "steps differs (6 and 9), but is not declared to differ",
        ),
    ],
)
def test_differences_of_plans(change: dict[str, Any], kind: str, words: str, make_run: MakeRun, find: Find) -> None:
    found = find(make_run("linen", plan={}), make_run("nnx", plan=change))
    assert set(found) == {kind}
    assert found[kind].effect == "qualifies"
    assert words in found[kind].message


def test_configs_from_logs_are_compared_too(make_run: MakeRun, find: Find) -> None:
    config = {"steps": "10", "run_name": "a", "tensorboard_dir": "/a", "pure_nnx": "False"}
    other = {"steps": "20", "run_name": "b", "tensorboard_dir": "/b", "pure_nnx": "True", "newer_key": "1"}
    left, right = (make_run(arm, reading={"config": c}) for arm, c in (("linen", config), ("nnx", other)))
    found = find(left, right)
    assert set(found) == {"config"}
    assert found["config"].message.startswith("steps differs (10 and 20)")


# ---------------------------------------------------------------- declared differences, and kinds of differences


TOLD = "declared-software"


@pytest.mark.parametrize(
    ("software", "versions", "kinds"),
    [
        ((), {"jax": "1", "jaxlib": "1", "libtpu": "2", "numpy": "1"}, {"package-version"}),
        (("jax==2",), {"jax": "2", "jaxlib": "2", "libtpu": "2", "numpy": "1"}, {TOLD}),  # they depend on JAX
        (("jax==2",), {"jax": "2", "jaxlib": "2", "libtpu": "1", "numpy": "2"}, {"package-version", TOLD}),
        (("numpy==2", "Orbax_Checkpoint==9"), {"numpy": "2", "orbax-checkpoint": "9"}, {TOLD}),
        (("python /env/bin/python",), {"jax": "2", "numpy": "2", "python": "3.13"}, {TOLD}),
        (("project",), {"numpy": "2", "flax": "9"}, {TOLD}),
        (("maxtext==0.2.5",), {"numpy": "2", "flax": "9"}, {TOLD}),  # it includes its own
    ],
)
def test_declared_software_is_only_a_note(
    software: tuple[str, ...], versions: dict[str, str], kinds: set[str], make_run: MakeRun, find: Find
) -> None:
    ones = dict.fromkeys([*versions, "jax", "jaxlib"], "1")
    left = make_run("linen", plan={"versions": ones}, reading={"environment": Environment(jax="1", jaxlib="1")})
    here = Environment(jax=versions.get("jax", "1"), jaxlib=versions.get("jaxlib", "1"))
    plan = {"versions": ones | versions, "software": software}
    assert set(find(left, make_run("nnx", plan=plan, reading={"environment": here}))) == kinds


def test_the_versions_reported_by_the_runs_count(make_run: MakeRun, find: Find, wording: Wording) -> None:
    """A plan has the versions at planning time, a run the imported ones."""
    planned = {"jax": "0.12.0", "jaxlib": "0.12.0", "flax": "0.12.12"}
    left = make_run("linen", plan={"versions": planned})
    inside = {"trainer": {"versions": planned | {"jax": "0.11.1", "jaxlib": "0.11.2"}}}
    plan = {"versions": planned | {"jax": "0.11.0"}, "software": ("jax==0.11.0",)}
    found = find(left, make_run("nnx", plan=plan, record={"program": inside}))[TOLD]
    assert "jax, jaxlib" in found.message
    assert found.effect == "note"
    values = [evidence.value for evidence in found.evidence]
    assert values[0].startswith("jax 0.12.0, jaxlib 0.12.0 (")
    assert values[1].startswith("jax 0.11.1, jaxlib 0.11.2 (")
    for text in (found.message, *values):
        wording("findings", text)


def test_another_jax_than_declared_is_a_finding(make_run: MakeRun, find: Find) -> None:
    left = make_run("linen", plan={}, reading={"environment": ENVIRONMENT})
    here = ENVIRONMENT.replace(jax="0.8.1", jaxlib="0.8.1")
    declared = make_run("nnx", plan={"software": ("jax==0.8.1",)}, reading={"environment": here})
    assert find(left, declared) == {}
    other = make_run("nnx", plan={"software": ("numpy==2",)}, reading={"environment": here})
    assert set(find(left, other)) == {"jax-version"}


def test_compiler_flags_are_compared_as_a_set(make_run: MakeRun, find: Find) -> None:
    left = make_run("linen", plan={"environment": {"XLA_FLAGS": "--a=1 --b=2", "LIBTPU_INIT_ARGS": "--c=3"}})
    same = make_run("nnx", plan={"environment": {"XLA_FLAGS": "--b=2  --a=1", "LIBTPU_INIT_ARGS": "--c=3"}})
    assert find(left, same) == {}
    other = make_run("nnx", plan={"environment": {"XLA_FLAGS": "--b=2 --a=0", "LIBTPU_INIT_ARGS": "--c=3"}})
    found = find(left, other)
    assert set(found) == {"xla-flags"}
    assert [evidence.value for evidence in found["xla-flags"].evidence] == ["--a=1", "--a=0"]


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("dataset_type", "data"),
        ("dataset_path", "data"),
        ("hf_path", "data"),
        ("grain_train_files", "data"),
        ("tokenizer_path", "data"),
        ("train_split", "data"),
        ("data_path", "data"),  # Megatron's
        ("data_shuffle_seed", "seed"),
        ("init_weights_seed", "seed"),
        ("seed", "seed"),
        ("compile_xla_flags", "xla-flags"),
        ("remat_policy", "config"),
        ("database", "config"),
    ],
)
def test_a_config_key_is_classified(key: str, kind: str, make_run: MakeRun, find: Find) -> None:
    place = Source(line=7, offset=70)
    sides = [
        make_run(arm, reading={"config": {key: value}, "sources": {f"config.{key}": place}})
        for arm, value in (("linen", "1"), ("nnx", "2"))
    ]
    found = find(*sides)
    assert set(found) == {kind}
    assert [(e.value, e.source) for e in found[kind].evidence] == [("1", place), ("2", place)]
    assert find(*sides, declared=frozenset({key})) == {}


def test_many_keys_are_one_finding(make_run: MakeRun, find: Find) -> None:
    keys = [f"key_{letter}" for letter in "abcdefg"]
    sides = [
        make_run(arm, reading={"config": dict.fromkeys(keys, value)}) for arm, value in (("linen", "1"), ("nnx", "2"))
    ]
    found = find(*sides)["config"]
    assert found.message.startswith("7 config keys ")
    assert found.message.endswith(": key_a, key_b, key_c, key_d, key_e and 2 more")
    assert [evidence.value for evidence in found.evidence if evidence.arm == "nnx"] == [f"{key}=2" for key in keys]


def test_logs_of_two_trainers_are_a_finding(make_run: MakeRun, find: Find) -> None:
    found = find(make_run("linen"), make_run("nnx", reading={"format": "megatron"}))
    assert set(found) == {"log-format"}


def test_the_builds_of_libtpu_are_compared(make_run: MakeRun, find: Find) -> None:
    sides = []
    for arm, build, line in (("linen", "cl/2", 30), ("nnx", "cl/1", 40)):
        reading = {
            "environment": ENVIRONMENT.replace(libtpu=build),
            "sources": {"libtpu": Source(line=line, offset=10 * line)},
        }
        sides.append(make_run(arm, reading=reading))
    found = find(*sides)
    assert set(found) == {"libtpu-version"}
    lines = [evidence.source.line for evidence in found["libtpu-version"].evidence if evidence.source]
    assert lines == [30, 40]


def test_repeats_under_different_conditions_are_a_finding(make_run: MakeRun, arm_of: Callable[..., ArmRuns]) -> None:
    other = make_run("linen", repeat=2, reading={"environment": Environment(jax="0.8.1", num_devices=1)})
    arms = (arm_of(make_run("linen"), make_run("linen", repeat=1), other), arm_of(make_run("nnx")))
    (found,) = find_findings(arms, declared=frozenset())
    assert (found.kind, found.effect) == ("mixed-runs", "qualifies")
    assert [evidence.value for evidence in found.evidence] == ["run 1: 0.12.0", "run 3: 0.8.1"]
    assert [evidence.source.run for evidence in found.evidence if evidence.source] == [0, 2]


def test_the_config_sets_the_effect_of_a_finding(make_run: MakeRun, find: Find) -> None:
    left = make_run("linen", reading={"environment": ENVIRONMENT})
    right = make_run("nnx", reading={"environment": ENVIRONMENT.replace(jax="0.8.1")})
    for effect in ("blocks", "note"):
        assert find(left, right, effects=EFFECTS | {"jax-version": effect})["jax-version"].effect == effect
    assert find(left, right, effects=EFFECTS | {"jax-version": "ignore"}) == {}


# ---------------------------------------------------------------- ends of the runs


def test_a_death_is_reported_with_step_place_and_cause(
    make_run: MakeRun, find: Find, died: Mapping[str, Any], wording: Wording
) -> None:
    right = make_run("nnx", losses=(), reading=died)
    found = find(make_run("linen"), right)
    assert found["died"].effect == "blocks"
    assert "(NotImplementedError, exit code 1, 30 s " in found["died"].message
    wording("findings", found["died"].message)
    (evidence,) = found["died"].evidence
    assert evidence.source is not None
    assert (evidence.source.line, evidence.source.offset) == (258, 37578)


@pytest.mark.parametrize(
    ("reading", "words"),
    [
        ({"exit_code": 137}, "nnx · c0ffee died after step 5 (exit code 137, 30 s after its start)"),
        (
            {"exit_code": None, "ended": None, "error": LogError(type="Killed", message="gone", line=9, offset=90)},
            "nnx · c0ffee died after step 5: gone (Killed)",
        ),
    ],
)
def test_deaths_without_an_exception(reading: dict[str, Any], words: str, make_run: MakeRun, find: Find) -> None:
    assert find(make_run("linen"), make_run("nnx", reading=reading))["died"].message == words


def test_a_survived_exception_is_reported_but_is_not_a_death(make_run: MakeRun, find: Find) -> None:
    error = LogError(type="ValueError", message="caught", line=9, offset=90)
    found = find(make_run("linen"), make_run("nnx", reading={"exit_code": 0, "survived": error}))
    assert set(found) == {"survived-exception"}
    assert found["survived-exception"].message.endswith(": nnx · c0ffee (ValueError: caught)")
    assert found["survived-exception"].evidence[0].source == Source(line=9, offset=90)


def test_any_repeat_may_die(make_run: MakeRun, arm_of: Callable[..., ArmRuns], died: Mapping[str, Any]) -> None:
    arms = (arm_of(make_run("linen"), make_run("linen", reading=died, repeat=1)), arm_of(make_run("nnx")))
    assert [finding.kind for finding in find_findings(arms, declared=frozenset())] == ["died"]


@pytest.mark.parametrize(
    ("coverage", "kind", "effect", "words"),
    [
        ({"complete": False}, "incomplete-log", "qualifies", "does not show how the run ended"),
        ({"complete": False, "truncated": True}, "incomplete-log", "qualifies", "is cut off"),
        ({"step_lines_parsed": 4}, "unread-steps", "qualifies", "2 of 6 step lines of nnx · c0ffee could not be read"),
        ({"gaps": ((3, 4), (7, 7))}, "missing-steps", "qualifies", "first 3–4"),
        ({"lost": ("lines missing from a to b: c",)}, "lost-lines", "blocks", "lines missing from a to b: c"),
        ({"rewinds": 1}, "restarted", "note", "went back to an earlier step 1 time;"),
    ],
)
def test_unread_steps_are_reported(
    coverage: dict[str, Any], kind: str, effect: str, words: str, make_run: MakeRun, find: Find
) -> None:
    right = make_run("nnx", reading={"coverage": COMPLETE.replace(**coverage)})
    found = find(make_run("linen"), right)
    assert set(found) == {kind}
    assert found[kind].effect == effect
    assert words in found[kind].message


@pytest.mark.parametrize(
    ("fate", "words"), [("cut_off", "is cut off"), ("finished", None), ("unknown", "does not show how the run ended")]
)
def test_a_log_without_an_exit_code_is_judged_by_its_steps(
    fate: str, words: str | None, make_run: MakeRun, find: Find
) -> None:
    reading = {"coverage": COMPLETE.replace(complete=False), "exit_code": None, "fate": fate}
    found = find(make_run("linen"), make_run("nnx", reading=reading))
    assert [(kind, words in found[kind].message) for kind in found if words] == [("incomplete-log", True)] * bool(words)
    assert bool(found) is bool(words)


def test_unread_steps_of_a_repeat_link_to_its_log(make_run: MakeRun, arm_of: Callable[..., ArmRuns]) -> None:
    unread = UnreadLine(line=104, offset=1040, text="completed step: 4, sec")
    torn = Coverage(step_lines_seen=7, step_lines_parsed=6, complete=False, truncated=True, unread=(unread,))
    arms = (
        arm_of(make_run("linen"), *(make_run("linen", repeat=n, reading={"coverage": torn}) for n in (1, 2))),
        arm_of(make_run("nnx")),
    )
    found = {finding.kind: finding for finding in find_findings(arms, declared=frozenset())}
    assert set(found) == {"unread-steps", "incomplete-log"}
    assert found["unread-steps"].message.startswith("1 of 7 step lines of linen · c0ffee, run 2 ")
    assert found["unread-steps"].message.endswith("(as in 1 more of its runs)")
    places = [evidence.source for evidence in found["unread-steps"].evidence]
    assert places == [Source(line=104, offset=1040, run=n) for n in (1, 2)]


def test_gaps_and_rewinds_link_to_their_line(make_run: MakeRun, find: Find) -> None:
    coverage = Coverage(step_lines_seen=6, step_lines_parsed=6, complete=True, gaps=((2, 3),), rewinds=1)
    right = make_run("nnx", columns={"step": [0, 1, 4, 5, 4, 5]}, reading={"coverage": coverage})
    found = find(make_run("linen"), right)
    places = {kind: found[kind].evidence[0].source for kind in ("missing-steps", "restarted")}
    assert places == {"missing-steps": Source(line=102, offset=1020), "restarted": Source(line=104, offset=1040)}


def test_the_log_of_a_dead_run_may_be_incomplete(make_run: MakeRun, find: Find, died: Mapping[str, Any]) -> None:
    reading = dict(died) | {"coverage": Coverage(complete=False, truncated=True)}
    assert set(find(make_run("linen"), make_run("nnx", losses=(), reading=reading))) == {"died"}


@pytest.mark.parametrize(
    ("started", "words"),
    [
        ("2026-11-18T10:15:00+00:00", None),
        ("2026-11-18T10:15:01+00:00", "15 minutes apart"),
        ("2026-11-18T08:28:00+00:00", "92 minutes apart"),  # before or after
        ("2026-11-18T22:33:10+00:00", "12.6 hours apart"),
        ("2026-11-18T11:30:00", "90 minutes apart"),  # without a zone: UTC
        (None, None),
    ],
)
def test_distant_starts_are_noted(started: str | None, words: str | None, make_run: MakeRun, find: Find) -> None:
    found = find(make_run("linen"), make_run("nnx", reading={"started": started, "ended": None}))
    assert {kind: finding.effect for kind, finding in found.items()} == ({"started-apart": "note"} if words else {})
    assert words is None or words in found["started-apart"].message


def test_blocking_findings_come_first(
    make_run: MakeRun, arm_of: Callable[..., ArmRuns], died: Mapping[str, Any]
) -> None:
    left = make_run("main", reading={"environment": ENVIRONMENT, "started": "2026-11-18T05:00:00+00:00"})
    right = make_run("feat/x", losses=(), reading=died)
    effects = [finding.effect for finding in find_findings((arm_of(left), arm_of(right)), declared=frozenset())]
    assert effects == sorted(effects, key=["blocks", "qualifies", "note"].index)
    assert set(effects) == {"blocks", "qualifies", "note"}
