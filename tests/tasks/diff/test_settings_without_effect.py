"""Settings and fields without an effect, and nondeterministic runs."""

from collections.abc import Callable
from math import nan
from typing import Any

import pytest

from configs.verdict_rules import load_effects
from tasks.diff.examine.arms import ArmRuns
from tasks.diff.examine.comparability import find_findings
from tasks.diff.examine.parity import compare_metric, shared_metrics
from tasks.diff.examine.untrained import find_untrained
from tasks.records.compared_case import Finding
from tasks.records.run import RunRecord
from tasks.records.shared_fields import Source
from tests.wording.sentences import Wording

type MakeRun = Callable[..., RunRecord]
type Find = Callable[..., dict[str, Finding]]

MOVING = (0.1, 0.2, 0.3, 0.2, 0.1, 0.2)


@pytest.fixture
def find(arm_of: Callable[..., ArmRuns]) -> Find:
    """find(baseline runs, candidate runs): the findings by kind."""

    def findings(left: Any, right: Any, declared: frozenset[str] = frozenset({"pure_nnx"})) -> dict[str, Finding]:
        sides = [[side] if isinstance(side, RunRecord) else side for side in (left, right)]
        arms = (arm_of(*sides[0]), arm_of(*sides[1]))
        parities = [compare_metric(arms, metric) for metric in shared_metrics(arms)]
        found = find_findings(arms, declared=declared, effects=load_effects(), parities=parities)
        assert len({finding.kind for finding in found}) == len(found)
        return {finding.kind: finding for finding in found}

    return findings


def values(name: str, column: Any) -> dict[str, Any]:
    return {"columns": {name: list(column)}}


def test_a_field_missing_in_one_arm(make_run: MakeRun, find: Find, wording: Wording) -> None:
    found = find(make_run("linen", **values("moe_lb_loss", MOVING)), make_run("nnx"))
    assert set(found) == {"missing-field"}
    assert "nnx · c0ffee have no moe_lb_loss;" in found["missing-field"].message
    wording("findings", found["missing-field"].message)
    assert [evidence.arm for evidence in found["missing-field"].evidence] == ["nnx", "linen"]
    assert all(evidence.source for evidence in found["missing-field"].evidence)
    # and the other way round
    assert set(find(make_run("linen"), make_run("nnx", **values("moe_lb_loss", MOVING)))) == {"missing-field"}


def test_a_field_that_is_nan_in_every_step_is_not_missing(make_run: MakeRun, find: Find) -> None:
    broken = values("moe_lb_loss", [nan] * len(MOVING))
    assert not find(make_run("linen", **values("moe_lb_loss", MOVING)), make_run("nnx", **broken))


@pytest.mark.parametrize(
    ("left", "right", "kind", "texts"),
    [
        (MOVING, (0.0,) * 6, "zero-field", ["0 in 6 steps", "0.1 to 0.3"]),
        ((0.5,) * 6, (0.0,) * 6, "zero-field", ["0 in 6 steps", "0.5"]),
        (MOVING, (0.2,) * 6, "constant-field", ["0.2 in 6 steps", "0.1 to 0.3"]),
        ((0.0,) * 6, (0.0,) * 6, None, []),  # off in both
        ((0.2,) * 6, (0.3,) * 6, None, []),  # constant in both; their difference is a row of the table
        ((None,) * 4 + (0.1, 0.2), (None,) * 4 + (0.0, 0.0), None, []),  # two values are too few
        ((0.0, 0.0, 0.0, 0.0, 0.0, 0.1), (0.0, 0.0, 0.0, 0.0, 0.1, 0.1), None, []),
    ],
)
def test_a_constant_field(
    left: Any, right: Any, kind: str | None, texts: list[str], make_run: MakeRun, find: Find
) -> None:
    sides = make_run("linen", **values("moe_lb_loss", left)), make_run("nnx", **values("moe_lb_loss", right))
    found = find(*sides)
    assert set(found) == ({kind} if kind else set())
    if kind:
        assert [evidence.value for evidence in found[kind].evidence] == texts
        assert found[kind].evidence[0].arm == "nnx"
    swapped = find(sides[1].replace(arm="linen"), sides[0].replace(arm="nnx"))
    assert set(swapped) == set(found)


def test_the_evidence_of_a_field_is_its_first_value_that_is_not_zero(make_run: MakeRun, find: Find) -> None:
    late = make_run("linen", **values("moe_lb_loss", (0.0, 0.0, 0.4, 0.0, 0.1, 0.1)))
    found = find(late, make_run("nnx", **values("moe_lb_loss", (0.0,) * 6)))
    assert [evidence.source for evidence in found["zero-field"].evidence] == [
        Source(line=100, offset=1000), Source(line=102, offset=1020),
    ]  # fmt: skip


def test_a_constant_clock_is_not_a_finding(make_run: MakeRun, find: Find) -> None:
    assert find(make_run("linen"), make_run("nnx", seconds=(0.1,) * 6)) == {}


def test_a_constant_loss_is_a_finding(make_run: MakeRun, find: Find) -> None:
    assert set(find(make_run("linen"), make_run("nnx", losses=(9.0,) * 6))) == {"constant-field"}


def test_fields_of_different_trainers_are_not_compared(make_run: MakeRun, find: Find) -> None:
    other = make_run("nnx", **values("grad_norm", MOVING), reading={"format": "megatron"})
    assert set(find(make_run("linen"), other)) == {"log-format"}


@pytest.mark.parametrize("prefix", ["", "params/"])
def test_an_array_that_training_never_changed(prefix: str, make_run: MakeRun, find: Find) -> None:
    start = {"arrays": {"params/a": "01", "params/b": "02"}, "digest": "x"}
    end = {"arrays": {f"{prefix}params/a": "07", f"{prefix}params/b": "02", "step": "09"}, "digest": "y"}
    trained = {**end, "arrays": {**end["arrays"], f"{prefix}params/b": "08"}}  # type: ignore[dict-item]
    left = make_run("linen", record={"program": {"initial_state": start, "state": trained}})
    right = make_run("nnx", record={"program": {"initial_state": start, "state": end}})
    found = find(left, right)
    assert set(found) == {"frozen-in-one-arm"}  # it may train nothing and replay losses
    assert found["frozen-in-one-arm"].effect == "blocks"
    message = "nnx · c0ffee did not change params/b in training, and linen · c0ffee did"
    assert found["frozen-in-one-arm"].message == message


def test_an_array_that_neither_arm_trains(make_run: MakeRun, arm_of: Callable[..., ArmRuns]) -> None:
    start, end = {"arrays": {"a": "01", "b": "02"}}, {"arrays": {"a": "07", "b": "02"}}
    record = {"program": {"initial_state": start, "state": end}}
    arms = arm_of(make_run("linen", record=record)), arm_of(make_run("nnx", record=record))
    assert [item.kind for item in find_untrained(arms)] == ["frozen-array"] * 2


def test_a_constant_norm_of_parameters(make_run: MakeRun, find: Find, wording: Wording) -> None:
    moving = values("param_norm/wi", MOVING)
    still = values("param_norm/wi", (0.5,) * 6)
    one = find(make_run("linen", **moving), make_run("nnx", **still))
    assert set(one) == {"constant-field", "frozen-array"}
    assert one["frozen-array"].message.startswith("param_norm/wi of nnx · c0ffee is 0.5 ")
    wording("findings", one["frozen-array"].message)
    assert find(make_run("linen", **moving), make_run("nnx", **moving)) == {}


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ({"enable_dropout": "True"}, {"enable_dropout": "False"}, True),
        ({"quantization": "int8"}, {"quantization": ""}, True),
        ({"remat_policy": "full"}, {"remat_policy": "minimal"}, False),  # a key without an effect on losses
        ({"dropout_rate": "0.1", "enable_dropout": "False"}, {"dropout_rate": "0.2", "enable_dropout": "False"}, False),
    ],
)
def test_a_setting_without_effect(
    left: Any, right: Any, expected: bool, make_run: MakeRun, find: Find, wording: Wording
) -> None:
    declared = frozenset(left)
    sides = make_run("linen", reading={"config": left}), make_run("nnx", reading={"config": right})
    found = find(*sides, declared)
    assert set(found) == ({"no-effect"} if expected else set())
    if expected:
        assert "(3 decimals) at all 6 steps" in found["no-effect"].message
        wording("findings", found["no-effect"].message)
    moved = make_run("nnx", losses=(9.0, 8.5, 8.0, 7.5, 7.25, 6.0), reading={"config": right})
    assert find(sides[0], moved, declared) == {}


def test_runs_of_one_arm_that_differ_among_themselves(make_run: MakeRun, find: Find, wording: Wording) -> None:
    left = [make_run("linen", repeat=n) for n in range(2)]
    right = [make_run("nnx", repeat=n, losses=(9.0, 8.5, 8.0, 7.5 + 0.001 * n, 7.25, 7.0)) for n in range(2)]
    found = find(left, right)
    assert set(found) == {"nondeterministic"}
    assert "nnx · c0ffee" in found["nondeterministic"].message
    assert "step 3 on (loss)" in found["nondeterministic"].message
    wording("findings", found["nondeterministic"].message)
    assert [(e.value, e.source) for e in found["nondeterministic"].evidence] == [
        ("run 1: loss 7.5", Source(line=103, offset=1030, run=0)),
        ("run 2: loss 7.501", Source(line=103, offset=1030, run=1)),
    ]
