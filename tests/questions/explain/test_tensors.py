"""Faults planted in a small trainer are named by line; edits without an effect are not."""

import json
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from questions.explain.arm_values import ArmValues, Divergence
from questions.explain.explain_arms import ObservedArm, explain_observed
from questions.explain.tensor_rows import ObservedStep, TensorRow
from questions.explain.tensors import compare_tensors, different_results, find_roots
from tasks.experiments.observe_arm import observe_arm
from tasks.observe.recorder import read_observation
from tasks.programs.compare_lowered import compare_program_files
from tasks.records.observation import FILE, PROGRAM, Observation, ObservedArray, TensorComparison
from tasks.records.plan import RunPlan

pytestmark = pytest.mark.long

OBSERVED = Path(__file__).parents[2] / "standins" / "observed" / "trainer.py"
type Planned = Callable[..., RunPlan]
type Observe = Callable[..., Path]
type Compare = Callable[..., TensorComparison]

NAMES = ("left", "right")
# the edit, and words of the line that must be named first
FAULTS = {
    "epsilon": (("epsilon=1e-5", "epsilon=1e-3"), "# line: norm"),
    "key without its layer": (("jax.random.fold_in(key, n)", "jax.random.fold_in(key, 0)"), "# line: key"),
    "one product × 1.0001": (('(x @ weights["up"])', '(x @ weights["up"] * 1.0001)'), "# line: product"),
    "weight decay": (("0.1 * w)", "0.2 * w)"), "# line: decay"),
    "stopped gradient": (
        ('jnp.tanh(x @ weights["up"])', 'jax.lax.stop_gradient(jnp.tanh(x @ weights["up"]))'),
        "# line: product",
    ),
    "rate of dropout": (("key, 0.9, h.shape", "key, 0.8, h.shape"), "# line: dropout"),
}  # fmt: skip
ROUNDED = {
    "one product in bf16": (
        '(x @ weights["up"])',
        '((x.astype("bfloat16") @ weights["up"].astype("bfloat16")).astype("float32"))',
    ),
    "division by the root": ("return x * jax.lax.rsqrt(", "return x / jnp.sqrt("),
    "a sum in another order": (
        "jnp.mean(x * x, axis=-1, keepdims=True)",
        "jnp.flip(x * x, -1).sum(-1)[..., None] / WIDTH",
    ),
}
# MaxText routes to its experts inside such a function
IN_A_SHARD_MAP = (
    "def layer(x, weights, key):\n",
    """def layer(*given):
    mesh = jax.sharding.Mesh(jax.devices()[:1], ("data",))
    spec = jax.sharding.PartitionSpec()
    return jax.shard_map(of_a_device, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)(*given)


def of_a_device(x, weights, key):
    key = jax.random.fold_in(key, jax.lax.axis_index("data"))
    x = jax.lax.psum(jax.lax.all_gather(x, "data", tiled=True), "data")
""",
)
# one arm passes its key to the step, the other keeps it in its state, as MaxText's Linen and NNX do
KEY = 'jax.random.fold_in(jax.random.key(0), state["step"])'
KEY_OF_THE_STEP = (
    ("def train_step(state, batch):", "def train_step(state, batch, dropout_rng):"),
    (KEY, 'jax.random.fold_in(dropout_rng, state["step"])'),
    ('"y": x[:, :4]})', '"y": x[:, :4]}, jax.random.PRNGKey(7))'),
)
KEY_OF_THE_STATE = (
    (KEY, 'state["rngs"]["dropout"]'),
    ('"mu": both[1]}, ', '"mu": both[1]}, "rngs": state["rngs"], '),
    # the other arm's key exists here too, for another purpose
    ("params)}, ", 'params)}, "rngs": {"dropout": jax.random.key(8), "params": jax.random.key(7)}, '),
)
IN_A_SHARD_MAP_OF_MANY = (
    IN_A_SHARD_MAP[0],
    """def layer(*given):
    mesh = jax.sharding.Mesh(jax.devices(), ("data",))
    split, whole = jax.sharding.PartitionSpec("data"), jax.sharding.PartitionSpec()
    of_all = jax.shard_map(of_a_device, mesh=mesh, in_specs=(split, whole, whole), out_specs=split, check_vma=False)
    return of_all(*given)  # line: shard_map


def of_a_device(x, weights, key):
    x = x - 0.1 * jax.lax.pmean(x, "data")
""",
)
HARMLESS = {
    "renamed": ("kept = jax", "chosen = kept = jax"),
    "another order": ("    m = 0.9 * m + 0.1 * g\n", "    unused = w * 2.0\n    m = 0.9 * m + 0.1 * g\n"),
    "a function more": ("x = norm(x)\n    h", "x = (lambda value: norm(value))(x)\n    h"),
    "factors in another order": ("logits * scale - ", 'norm(x) @ (params["head"] * scale) - '),
    "another order of arguments": ("def train_step(state, batch):", "def train_step(batch, state):"),
}  # fmt: skip


def all_but_first_by_hand(names: Iterable[str]) -> list[ParameterSet]:
    """Each starts two trainers: CI has the first of a kind."""
    return [pytest.param(name, marks=(pytest.mark.by_hand,) if n else ()) for n, name in enumerate(names)]


@pytest.fixture(scope="module")
def observed() -> dict[tuple[object, ...], Path]:
    """The observations of this module's tests so far: arm, edits, words and start → folder."""
    return {}


@pytest.fixture
def observe(observed: dict[tuple[object, ...], Path], plan_of: Planned, tmp_path: Path) -> Observe:
    """observe(arm, *edits): the folder of an observation of the edited trainer, which is made once for all tests."""

    def find(arm: str, *edits: tuple[str, str], words: tuple[str, ...] = (), start: Path | None = None) -> Path:
        key = (arm, edits, words, start)
        plan = plan_of(arm, *edits, words=words)  # writes the source that the test may read
        if key not in observed:
            folder = tmp_path / f"observed-{len(observed)}"
            found = observe_arm(plan, folder, start=start)
            assert found.tensors, found.notes
            observed[key] = folder
        return observed[key]

    return find


@pytest.fixture
def compare(observe: Observe) -> Compare:
    """The comparison of the small trainer with an edited one."""

    def run(
        *edits: tuple[str, str],
        of_both: Sequence[tuple[str, str]] = (),
        words: tuple[str, ...] = (),
        of_left: Sequence[tuple[str, str]] = (),
        shared: bool = False,
        judged_shared: bool = False,
    ) -> TensorComparison:
        left = observe("left", *of_both, *of_left)
        right = observe("right", *of_both, *edits, words=words, start=left if shared else None)
        return compare_tensors(left, right, names=NAMES, starts_shared=judged_shared)

    return run


@pytest.mark.parametrize("fault", all_but_first_by_hand(FAULTS))
def test_a_fault_is_named_by_its_line(fault: str, compare: Compare) -> None:
    edit, mark = FAULTS[fault]
    found = compare(edit)
    assert found.first is not None
    source = Path(found.first.path).read_text().splitlines()
    assert mark in source[found.first.line - 1], found.sentence
    assert not found.different_arguments


@pytest.mark.by_hand
def test_a_fault_in_a_shard_map_of_one_device_is_named_by_its_line(compare: Compare) -> None:
    edit, mark = FAULTS["one product × 1.0001"]
    found = compare(edit, of_both=[IN_A_SHARD_MAP])
    assert found.first is not None
    source = Path(found.first.path).read_text().splitlines()
    assert mark in source[found.first.line - 1], found.sentence


@pytest.mark.by_hand
def test_in_a_shard_map_of_several_devices_the_tensors_name_its_call_and_the_program_the_line(
    plan_of: Planned, sources: Path, tmp_path: Path
) -> None:
    edit, mark = FAULTS["one product × 1.0001"]
    folders = tmp_path / "a", tmp_path / "b"
    for folder, edits in zip(folders, ([], [edit]), strict=True):
        plan = plan_of(folder.name, IN_A_SHARD_MAP_OF_MANY, *edits)
        many = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
        found = observe_arm(plan.replace(environment={**plan.environment, **many}), folder)
        assert (found.devices, found.notes) == (2, ())
    source = (sources / "a" / "trainer.py").read_text().splitlines()
    tensors = compare_tensors(*folders, names=NAMES)
    assert tensors.first is not None
    assert "# line: shard_map" in source[tensors.first.line - 1]
    program = compare_program_files(folders[0] / PROGRAM, folders[1] / PROGRAM, NAMES)
    line = program.operations[0].baseline_line
    assert line is not None
    assert mark in source[line.line - 1], program.sentence


@pytest.mark.parametrize("edit", all_but_first_by_hand(HARMLESS))
def test_an_edit_without_an_effect_is_not_named(edit: str, compare: Compare) -> None:
    old, new = HARMLESS[edit]
    calls = [
        ('step(state, {"x": x, "y": x[:, :4]})', 'step({"x": x, "y": x[:, :4]}, state)'),
        ("argnums=0", "argnums=1"),
    ]
    found = compare((old, new), *(calls if "arguments" in edit else []))
    assert found.roots == ()
    assert found.sentence.endswith("are equal in float64")


@pytest.mark.parametrize("edit", all_but_first_by_hand(ROUNDED))
def test_an_edit_that_only_rounds_has_no_root_and_the_program_names_its_line(
    edit: str, observe: Observe, compare: Compare
) -> None:
    found = compare(ROUNDED[edit])
    assert found.roots == ()
    assert found.sentence.startswith("one function in float64; ")
    program = compare_program_files(observe("left") / PROGRAM, observe("right", ROUNDED[edit]) / PROGRAM, NAMES)
    source = (OBSERVED.read_text().replace(*ROUNDED[edit])).splitlines()
    lines = {row.candidate_line.line for row in program.operations if row.candidate_line}
    assert any(ROUNDED[edit][1] in source[line - 1] for line in lines), program.sentence


UNROLLED = (
    ('x, _ = jax.lax.scan(jax.checkpoint(body), batch["x"], (params["layers"], jnp.arange(LAYERS)))', 'x = batch["x"]'),
    ("    logits = norm", """    for n in range(LAYERS):
        weights = jax.tree.map(lambda w: w[n], params["layers"])
        x, _ = jax.checkpoint(body)(x, (weights, jnp.int32(n)))
    logits = norm"""),
)  # fmt: skip


def test_unrolled_layers_are_no_root(compare: Compare) -> None:
    assert compare(*UNROLLED).roots == ()


# not the key without its layer: the loop's counter, which only one arm has and which changes the key, is named first
@pytest.mark.long
@pytest.mark.parametrize("fault", all_but_first_by_hand(fault for fault in FAULTS if fault != "key without its layer"))
def test_a_fault_in_unrolled_layers_is_named_by_its_line(fault: str, compare: Compare) -> None:
    edit, mark = FAULTS[fault]
    found = compare(*UNROLLED, edit)
    assert found.first is not None
    source = Path(found.first.path).read_text().splitlines()
    assert mark in source[found.first.line - 1], found.sentence


# the loss in parts of the batch, whose gradient is written by hand: as in maxtext#4959 it lacks the factor of the mean
IN_PARTS = (
    ("def loss_of(", """def error_of(x, y, head):
    shift = jax.lax.stop_gradient(jnp.max(x))
    return jnp.sum((norm(x - shift + shift) @ head * 0.5 - y) ** 2)


@jax.custom_vjp
def in_parts(x, y, head):
    return sum(error_of(x[n], y[n], head) for n in range(len(x))) / 16


def parts_forward(x, y, head):
    return in_parts(x, y, head), (x, y, head)


def parts_backward(kept, g):
    x, y, head = kept
    found = [jax.grad(error_of, (0, 2))(x[n], y[n], head) for n in range(len(x))]
    return jnp.stack([one for one, _ in found]) * FACTOR, None, sum(one for _, one in found) * g / 16


in_parts.defvjp(parts_forward, parts_backward)


def loss_of("""),
    ('    logits = norm(x) @ params["head"]\n', ""),
    ("    scale = 0.5  # line: scale\n", ""),
    ('jnp.mean((logits * scale - batch["y"]) ** 2)', 'in_parts(x, batch["y"], params["head"])  # line: parts'),
)  # fmt: skip


def test_a_factor_lost_in_the_gradient_of_parts_is_named_by_their_line(compare: Compare) -> None:
    define, *use = IN_PARTS
    broken = compare((define[0], define[1].replace("FACTOR", "1.0")), *use)
    assert broken.first is not None
    source = Path(broken.first.path).read_text().splitlines()
    assert any(mark in source[broken.first.line - 1] for mark in ("# line: parts", "jnp.mean(")), broken.sentence
    # the forward pass in parts has other tensors, and an equal loss: what differs begins behind it
    directions = [root.direction for root in broken.roots]
    assert directions == sorted(directions, key=["backward", "forward"].index)


@pytest.mark.long
def test_parts_of_a_batch_are_no_root(compare: Compare) -> None:
    define, *use = IN_PARTS
    assert compare((define[0], define[1].replace("FACTOR", "g / 16")), *use).roots == ()


# a loss, and another one that is a mean over rows and minimised with it
AUXILIARY = (
    ("jax.random.bernoulli(key, 0.9, h.shape)", "jnp.bool_(True)"),
    ("loss_of(params, batch, key)", "loss_of(params, batch, key, share=1.0)"),
    ('    return jnp.mean((logits * scale - batch["y"]) ** 2)', """\
    error = jnp.sum((logits * scale - batch["y"]) ** 2) / 16
    even = jnp.mean(jnp.tanh(x) ** 4) * share  # line: share
    return error + even, (error, even)"""),
    ('    loss, grads = jax.value_and_grad(loss_of)(state["params"], batch, key)', """\
    minimise = jax.value_and_grad(loss_of, has_aux=True)
    (loss, terms), grads = minimise(state["params"], batch, key)"""),
    ('state["step"] + 1}, loss\n', 'state["step"] + 1}, (loss, *terms)\n'),
    ("float(loss)", "float(loss[0])"),
)  # fmt: skip
# the same in two parts of the batch, one after another
ADDED_UP = (
    '(loss, terms), grads = minimise(state["params"], batch, key)\n',
    """def add(total, part):
        rows, n = part
        share = SHARE  # line: part
        return jax.tree.map(jnp.add, total, minimise(state["params"], rows, key, share)), None

    parts = jax.tree.map(lambda a: a.reshape(2, 2, *a.shape[1:]), batch)
    one = jax.eval_shape(minimise, state["params"], jax.tree.map(lambda a: a[0], parts), key)
    zeros = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), one)
    ((loss, terms), grads), _ = jax.lax.scan(add, zeros, (parts, jnp.arange(2)))
""",
)


@pytest.mark.by_hand
def test_a_loss_of_the_last_part_alone_is_named_where_its_share_is_taken(compare: Compare) -> None:
    """MaxText's load-balancing loss under accumulation: AI-Hypercomputer/maxtext#3311."""
    edit = (ADDED_UP[0], ADDED_UP[1].replace("SHARE", "jnp.where(n == 1, 0.5, 0.0)"))
    found = compare(edit, of_both=AUXILIARY)
    assert found.first is not None
    source = Path(found.first.path).read_text().splitlines()
    line = source[found.first.line - 1]
    assert any(mark in line for mark in ("# line: share", "# line: part")), found.sentence
    assert found.first.direction == "forward"


def test_a_mean_that_is_added_up_over_parts_is_no_root(compare: Compare) -> None:
    edit = (ADDED_UP[0], ADDED_UP[1].replace("SHARE", "0.5"))
    assert compare(edit, of_both=AUXILIARY).roots == ()


# a mean over the rows that count, in two parts of the batch whose rows alternate
COUNTED = (
    ("jax.random.bernoulli(key, 0.9, h.shape)", "jnp.bool_(True)"),
    ("def loss_of(params, batch, key)", """def count(batch):
    return jnp.sum(batch["y"] > 0.3)


def loss_of(params, batch, key, total)"""),
    ('jnp.mean((logits * scale - batch["y"]) ** 2)', 'jnp.sum((logits * scale - batch["y"]) ** 2 / total)'),
    ("batch, key)\n    pairs", "batch, key, count(batch))\n    pairs"),
)  # fmt: skip
ALTERNATING = (
    'loss, grads = jax.value_and_grad(loss_of)(state["params"], batch, key, count(batch))\n',
    """def add(total, rows):
        found = jax.value_and_grad(loss_of)(state["params"], rows, key, TOTAL)  # line: total
        return jax.tree.map(jnp.add, total, found), None

    parts = jax.tree.map(lambda a: a.reshape(2, 2, *a.shape[1:]).swapaxes(0, 1), batch)  # line: split
    zeros = jax.tree.map(jnp.zeros_like, (jnp.float32(0), state["params"]))
    (loss, grads), _ = jax.lax.scan(add, zeros, parts)
""",
)


def test_a_mean_of_means_is_named_where_the_total_is_taken(compare: Compare) -> None:
    found = compare((ALTERNATING[0], ALTERNATING[1].replace("TOTAL", "2 * count(rows)")), of_both=COUNTED)
    assert found.first is not None
    source = Path(found.first.path).read_text().splitlines()
    assert "# line: total" in source[found.first.line - 1], found.sentence


def test_a_mean_over_alternating_rows_is_no_root(compare: Compare) -> None:
    edit = (ALTERNATING[0], ALTERNATING[1].replace("TOTAL", "count(batch)"))
    assert compare(edit, of_both=COUNTED).roots == ()


def test_rows_that_are_split_wrongly_are_named_although_their_number_is_right(compare: Compare) -> None:
    edit = (
        ALTERNATING[1]
        .replace("TOTAL", "count(batch)")
        .replace(", batch)  # line: split", ', {**batch, "x": batch["x"][::-1]})  # line: split')
    )
    found = compare((ALTERNATING[0], edit), of_both=COUNTED)
    assert found.first is not None
    source = Path(found.first.path).read_text().splitlines()
    assert "# line: split" in source[found.first.line - 1], found.sentence


# each layer's weights are arrays of their own
SINGLE = (
    UNROLLED[0],
    ("    logits = norm", """    for n in range(LAYERS):
        x, _ = jax.checkpoint(body)(x, (params[f"layers_{n}"], jnp.int32(n)))
    logits = norm"""),
    ('    params["head"]', """    layers = params.pop("layers")
    for n in range(LAYERS):
        params[f"layers_{n}"] = jax.tree.map(lambda w, n=n: w[n], layers)
    params["head"]"""),
)  # fmt: skip
BY_RANK = ("0.1 * w)", "0.1 * w * (w.ndim > 2))")


@pytest.mark.by_hand
def test_a_decay_by_rank_differs_between_stacked_layers_and_single_ones(compare: Compare) -> None:
    found = compare(*SINGLE, of_both=[BY_RANK], shared=True)
    assert found.roots
    for root in found.roots:
        assert "# line: decay" in Path(root.path).read_text().splitlines()[root.line - 1], root.sentence


@pytest.mark.long
def test_stacked_layers_are_no_root(compare: Compare) -> None:
    assert compare(*SINGLE, shared=True).roots == ()


@pytest.mark.by_hand
def test_other_first_weights_are_named_first_also_if_they_are_replaced(compare: Compare) -> None:
    apart = compare(words=("1",))
    assert {root.operation for root in apart.roots if root.kind == "argument"} == {"parameter", "data"}
    together = compare(words=("1",), shared=True)
    assert together.first is None  # nothing inside of the step differs
    assert {root.operation for root in together.roots} == {"parameter", "data"}
    assert all("given those of left" in root.sentence for root in together.roots)
    assert together.replaced_arguments == 9  # 3 weights, 3 moments, the step, x and y


def test_first_weights_are_not_named_if_the_judged_runs_shared_them(compare: Compare) -> None:
    together = compare(words=("1",), shared=True, judged_shared=True)
    assert together.roots == ()
    assert together.sentence.endswith("are equal in float64")
    assert together.replaced_arguments == 9


@pytest.mark.by_hand
def test_draws_with_keys_of_one_arm_only_are_named(compare: Compare) -> None:
    found = compare(*KEY_OF_THE_STATE, of_left=KEY_OF_THE_STEP)
    assert found.first is not None
    assert {root.kind for root in found.roots} == {"key"}  # neither its derivation nor a consequence
    source = Path(found.first.path).read_text().splitlines()
    assert {source[root.line - 1].partition("  # ")[2] for root in found.roots} == {"line: dropout"}
    assert {root.direction for root in found.roots} == {"forward", "recomputed"}
    assert re.search(r"left's .* dropout_rng, right's .* state\.rngs\.dropout", found.sentence)


def test_tensors_behind_draws_with_unrelated_keys_are_evaluated_with_the_same_draws(compare: Compare) -> None:
    found = compare(*KEY_OF_THE_STATE, of_left=KEY_OF_THE_STEP, shared=True)
    assert {root.kind for root in found.roots} == {"key"}
    assert found.consequences == 0
    assert "evaluated with the draws of left" in found.sentence
    assert found.sentence.endswith("equal in float64")
    assert found.different_results == ()  # the trainers' own programs use their own draws


@pytest.mark.long
@pytest.mark.parametrize("fault", all_but_first_by_hand(["epsilon", "rate of dropout", "weight decay"]))
def test_a_fault_is_named_beside_draws_with_unrelated_keys(fault: str, compare: Compare) -> None:
    edit, mark = FAULTS[fault]
    found = compare(*KEY_OF_THE_STATE, edit, of_left=KEY_OF_THE_STEP, shared=True)
    others = [root for root in found.roots if root.kind != "key"]
    source = Path(others[0].path).read_text().splitlines()
    assert mark in source[others[0].line - 1], [root.sentence for root in found.roots]


def test_dropout_of_one_arm_alone_is_named_by_its_draw(compare: Compare) -> None:
    none = (("jax.random.bernoulli(key, 0.9, h.shape)", "True"), ("h / 0.9", "h"))
    found = compare(*none, of_left=KEY_OF_THE_STEP)
    assert found.first is not None
    source = Path(found.first.path).read_text().splitlines()
    assert "# line: dropout" in source[found.first.line - 1], found.sentence
    assert "only left" in found.sentence


def test_the_report_has_the_constant_and_its_count(compare: Compare) -> None:
    found = compare(FAULTS["epsilon"][0])
    assert found.first is not None
    assert (found.first.kind, found.first.operation) == ("constant", "add")
    assert (found.first.baseline, found.first.candidate) == ("1e-05", "0.001")
    assert found.first.direction == "forward"
    assert {"forward", "recomputed"} <= {root.direction for root in found.roots}


def test_two_versions_of_jax_are_reported_and_their_computations_compared(
    observe: Observe, plan_of: Planned, tmp_path: Path
) -> None:
    plan, folders = plan_of("left"), (observe("left"), tmp_path / "b")
    shutil.copytree(folders[0], folders[1])
    record = json.loads((folders[1] / FILE).read_text())
    versions = record["software"]["jax"], "0.8.0"
    (folders[1] / FILE).write_text(json.dumps({**record, "software": {"jax": versions[1]}}))
    arms = [
        ObservedArm(plan, name, folder, read_observation(folder, name))
        for name, folder in zip(NAMES, folders, strict=True)
    ]
    found = explain_observed((arms[0], arms[1]))
    assert found.tensors is not None
    assert found.tensors.sentence.endswith("are equal in float64")
    assert f"left runs JAX {versions[0]}, right JAX 0.8.0" in found.tensors.notes[0]
    assert found.program is not None
    assert (found.program.answer, found.program.versions) == ("same text", versions)


def test_operations_in_another_order_on_other_tensors_are_roots_of_their_own() -> None:
    """Each arm's first operation has its equal behind the other arm's first one, as where a reshape and a transpose of
    the experts' numbers change places."""

    def arm_of(*operations: tuple[str, list[object], str]) -> ArmValues:
        rows = [
            TensorRow(
                "", operation, (origin,), "t.py", n + 1, "f", "t.py", "", "int32[8]", 0, "{}", 1.0, 0.0, 1.0, 0, value
            )
            for n, (operation, origin, value) in enumerate(operations)
        ]
        given = [ObservedArray(name=one, role="data", meaning=one, shape=(8,), dtype="int32") for one in "xy"]
        return ArmValues(
            Observation(arm="an arm", arguments=tuple(given)), ObservedStep(rows, ["of x", "of y"], [["row", 1]])
        )

    left = arm_of(("transpose", ["arg", 0], "a"), ("convert", ["row", 0], "b"))
    right = arm_of(("convert", ["arg", 1], "c"), ("transpose", ["row", 0], "d"))
    found = find_roots(Divergence(left, right), Divergence(right, left))
    assert {(one.root.operation, one.root.line) for one in found} == {("transpose", 1), ("convert", 1)}


def test_a_result_without_a_name_has_that_of_the_argument_which_it_becomes() -> None:
    def arm_of(*digests: str) -> Observation:
        shown: dict[str, Any] = {"shape": (2,), "dtype": "float32"}
        given = [ObservedArray(name=one, role="parameter", meaning=one, **shown) for one in ("up", "down", "x")]
        made = [
            ObservedArray(name=f"result[{n}]", role="data", meaning=str(n), digest=one, **shown)
            for n, one in enumerate(digests)
        ]
        return Observation(arguments=tuple(given), results=tuple(made), feeds=(1, 0, None))

    assert different_results((arm_of("a", "b", "c"), arm_of("a", "d", "e"))) == ("up", "2")


@pytest.mark.parametrize("swapped", [False, True])
def test_a_result_that_one_arm_returns_as_it_was_given_is_named_by_the_line_that_makes_it(swapped: bool) -> None:
    """As statistics of a batch that the step computes, and then returns the old ones."""

    def arm_of(name: str, origin: list[object], given: str = "old") -> ArmValues:
        value = "new" if given == "old" else f"made of {given}"
        row = TensorRow(
            "", "add", (["arg", 0],), "t.py", 7, "norm", "t.py", "", "float32[8]", 0, "{}", 1.0, 0.0, 1.0, 0, value
        )
        stats = ObservedArray(name="stats", role="parameter", meaning="mean", shape=(8,), dtype="float32")
        made = stats.replace(meaning="0")
        observation = Observation(arm=name, arguments=(stats,), results=(made,), feeds=(0,))
        return ArmValues(observation, ObservedStep([row], [given], [origin]))

    arms = [arm_of("main", ["row", 0]), arm_of("branch", ["arg", 0])]
    arms = arms[::-1] if swapped else arms
    (found,) = find_roots(Divergence(arms[0], arms[1]), Divergence(arms[1], arms[0]))
    assert (found.root.line, found.root.operation) == (7, "add")
    assert found.root.sentence.endswith("main returns this as mean, branch its argument mean")
    assert find_roots(Divergence(arms[0], arms[0]), Divergence(arms[0], arms[0])) == []
    others = arm_of("main", ["row", 0]), arm_of("branch", ["row", 0], "another argument")
    assert find_roots(Divergence(*others), Divergence(*others[::-1])) == []  # only what the step is given differs
