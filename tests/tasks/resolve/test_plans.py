"""Plans: order, identity, names, origins, and the state of the trainer's checkout."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.comparison import Arm, load_comparison, load_target
from configs.errors import ConfigError
from configs.installed import source_digest, trainer_commit
from configs.names import list_names
from configs.read import CONFIG_ROOT
from configs.schema import PLACE_KEYS, TrainConfig
from tasks.records.plan import Invocation, RunPlan
from tasks.resolve.arm_config import find_unfit_cases, resolve_config
from tasks.resolve.commands import Command
from tasks.resolve.options import CompareOptions
from tasks.resolve.plans import (
    NAME_LENGTH,
    FunctionRequest,
    Request,
    name_run_folder,
    plan_run,
    request_comparison,
    resolve,
)
from tasks.resolve.trainers.maxview_trainer import MaxviewTrainer
from tests.wording.sentences import Wording

OUT = Path("/somewhere/out")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return Path(
        shutil.copytree(CONFIG_ROOT, tmp_path / "configs", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    )


def plans_of(**changes: Any) -> list[RunPlan]:
    return resolve(Request(comparison="linen-vs-nnx", **changes), OUT)


def problems_of(**changes: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        resolve(Request(**({"comparison": "linen-vs-nnx"} | changes)), OUT)
    return caught.value.problems


def test_blessed_runs_replace_the_first_arm_and_must_exist(tmp_path: Path) -> None:
    place = f"{tmp_path}/baselines/"
    problems = problems_of(blessed=place, cases=("01_base", "06_moe"))
    assert [problem.partition(": ")[0] for problem in problems] == [
        f"{place}linen-vs-nnx/cpu/{case}.json" for case in ("01_base", "06_moe")
    ]
    assert 'maxview bless linen-vs-nnx --case 06_moe --reason "…"' in problems[1]


def test_a_shared_start_has_no_blessed_runs(tree: Path, tmp_path: Path, wording: Wording) -> None:
    path = tree / "comparisons" / "linen-vs-nnx.yml"
    path.write_text(path.read_text() + "start: shared\n")
    with pytest.raises(ConfigError, match="linen-vs-nnx: ") as error:
        resolve(Request(comparison="linen-vs-nnx", blessed=f"{tmp_path}/"), OUT, root=tree)
    wording("errors", error.value)


def test_repeats_are_interleaved_case_by_case() -> None:
    plans = plans_of(cases=("03_dropout", "01_base"), repeats=2)
    assert [(plan.case, plan.arm, plan.repeat) for plan in plans] == [
        (case, arm, repeat) for case in ("03_dropout", "01_base") for repeat in (0, 1) for arm in ("linen", "nnx")
    ]


def test_without_options_the_plans_follow_the_comparisons_file() -> None:
    spec = load_comparison("linen-vs-nnx")
    plans = plans_of()
    assert {plan.case for plan in plans} == set(spec.cases)
    assert {plan.target for plan in plans} == {spec.target}
    assert len(plans) == 2 * len(spec.cases) * spec.repeats


def test_all_means_every_case_and_duplicates_count_once(wording: Wording) -> None:
    # 12_pipeline has its own mesh, of eight devices
    assert {plan.case for plan in plans_of(cases=("all",))} == set(list_names("cases")) - {"12_pipeline"}
    eight = {plan.case for plan in plans_of(cases=("all",), target="cpu-8")}
    assert eight == set(list_names("cases"))
    assert find_unfit_cases(["01_base", "12_pipeline"], load_target("cpu")) == {
        "12_pipeline": "needs 8 devices, cpu has 1"
    }
    big = find_unfit_cases(list_names("cases"), load_target("v6e-32"), model="deepseek2-16b")
    assert list(big) == ["12_pipeline"]
    assert "num_experts=1" in big["12_pipeline"]
    wording("errors", big["12_pipeline"])
    assert len(plans_of(cases=("01_base", "01_base"))) == 2


def test_layers_reach_the_plan_in_their_order() -> None:
    linen, nnx = plans_of(cases=("03_dropout",), overrides=("steps=7",))
    target = load_target("cpu")
    assert (linen.config["pure_nnx"], nnx.config["pure_nnx"]) == (False, True)
    assert linen.config["steps"] == 7  # the command line over base.yml
    assert linen.config["max_target_length"] == 128  # the case over the target's 256
    assert linen.config["per_device_batch_size"] == target.set["per_device_batch_size"]
    assert linen.config["base_emb_dim"] == 64  # the target's model over base.yml
    assert linen.environment == target.environment
    assert linen.time_limit_s == target.time_limit_s


def test_the_comparison_overrides_its_arms_cases_and_models(tree: Path) -> None:
    path = tree / "comparisons" / "linen-vs-nnx.yml"
    path.write_text(path.read_text().replace("set: {}", "set: {steps: 3, max_target_length: 64, vocab_size: 99}"))
    request = Request(comparison="linen-vs-nnx", cases=("03_dropout",))
    plan = resolve(request, OUT, root=tree)[0]
    assert [plan.config[key] for key in ("steps", "max_target_length", "vocab_size")] == [3, 64, 99]
    assert plan.origins["vocab_size"] == f"{path}:12"


def test_the_trainer_reads_back_the_resolved_config() -> None:
    for plan in plans_of(cases=("all",)):
        assert TrainConfig.model_validate(plan.config, strict=True).model_dump() == plan.config
        assert plan.config["run_name"] == plan.run_name
        assert Path(plan.config["base_output_directory"]) / plan.run_name == Path(plan.directory)
        assert plan.argv[1:] == ("-m", "model.train", f"{plan.directory}/config.yml")
        assert set(plan.origins) == set(plan.config)


def test_the_plan_lists_the_variables_passed_on_by_the_target(tree: Path) -> None:
    target = tree / "targets" / "cpu.yml"
    target.write_text(f"{target.read_text()}pass_on: [HF_TOKEN]\nwrap: [unshare, --net, --]\n")
    plan, _ = resolve(Request(comparison="linen-vs-nnx", target="cpu", cases=("01_base",)), OUT, root=tree)
    before, _ = plans_of(target="cpu", cases=("01_base",))
    assert plan.passed_on == (*before.passed_on, "HF_TOKEN")
    assert "PATH" in before.passed_on
    assert not [name for name in before.passed_on if name.endswith("*") and not name.startswith(("LC_", "JAX_"))]
    assert plan.argv == ("unshare", "--net", "--", *before.argv)
    assert plan.identity == before.identity  # neither influences the computation


def test_a_relative_folder_becomes_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    plan = resolve(Request(comparison="linen-vs-nnx"), Path("out"))[0]
    assert plan.directory == str(tmp_path / "out" / "runs" / plan.run_name)


# ---------------------------------------------------------------- identity


def test_the_same_request_has_the_same_identities_in_every_output_folder() -> None:
    first = plans_of(repeats=2)
    again = resolve(Request(comparison="linen-vs-nnx", repeats=2), Path("/elsewhere"))
    assert [plan.identity for plan in first] == [plan.identity for plan in again]
    assert [plan.run_name for plan in first] == [plan.run_name for plan in again]
    assert first[0].directory != again[0].directory


def test_every_run_of_a_request_has_its_own_identity_and_name() -> None:
    """Cases that spell out a default are the same work under another name."""
    plans = plans_of(cases=("all",), repeats=3)
    assert (
        len({plan.run_name for plan in plans}) == len(plans) == 2 * 3 * (len(list_names("cases")) - 1)
    )  # all except 12_pipeline
    work = {
        (plan.repeat, *(str(value) for key, value in sorted(plan.config.items()) if key not in PLACE_KEYS))
        for plan in plans
    }
    assert len({plan.identity for plan in plans}) == len(work)


CHECKOUT = MaxviewTrainer(commit="c0ffee", dirty=False, versions={"jax": "1"})
WITH_SOURCE = CHECKOUT.replace(versions={"jax": "1", "trainer source": "x"})
CHANGED: dict[str, object] = {
    # another valid value for every key that may change a result
    "hardware": "tpu", "pure_nnx": True, "steps": 21, "base_emb_dim": 32, "base_num_query_heads": None,
    "base_num_kv_heads": None, "head_dim": 32, "base_mlp_dim": 128, "base_num_decoder_layers": 2, "vocab_size": 100,
    "normalization_layer_epsilon": 1e-6, "rope_max_timescale": 500, "scan_layers": False, "param_scan_axis": 0,
    "remat_policy": "none", "attention": "flash", "enable_dropout": False, "dropout_rate": 0.5, "dtype": "float32",
    "weight_dtype": "bfloat16", "matmul_precision": "high", "dataset_type": "grain", "per_device_batch_size": 2,
    "max_target_length": 32, "opt_type": None, "learning_rate": 1e-3, "learning_rate_schedule_steps": 10,
    "warmup_steps_fraction": 0.2, "learning_rate_final_fraction": 0.2, "adam_b1": 0.8, "adam_b2": 0.9,
    "adam_eps": 1e-7, "adam_eps_root": 1e-7, "adam_weight_decay": 0.2, "gradient_clipping_threshold": 2.0,
    "init_weights_seed": 1, "data_shuffle_seed": 1, "ici_data_parallelism": 2, "ici_fsdp_parallelism": 4,
    "ici_tensor_parallelism": 2, "enable_checkpointing": False, "async_checkpointing": False, "checkpoint_period": 5,
    "attention_type": "mla", "q_lora_rank": 8, "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
    "v_head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "shared_experts": 1, "base_moe_mlp_dim": 8,
    "norm_topk_prob": True,
    "first_num_dense_layers": 1, "capacity_factor": 1.0, "load_balance_loss_weight": 0.1, "quantization": "int8",
    "gradient_accumulation_steps": 2, "optimizer_memory_host_offload": True, "eval_interval": 5, "eval_steps": 2,
    "shardy": False, "ici_context_parallelism": 2, "ici_expert_parallelism": 2, "resume_after_step": 3,
    "grain_train_files": "x", "grain_eval_files": "x", "grain_file_type": "txt", "tokenizer_path": "x",
    "enable_tensorboard": True, "profiler": "xplane", "skip_first_n_steps_for_profiler": 2, "profiler_steps": 2,
    "gcs_metrics": True,
    "ici_pipeline_parallelism": 2, "num_layers_per_pipeline_stage": 2, "num_pipeline_microbatches": 2,
}  # fmt: skip


def identity_of(config: TrainConfig | None = None, **changes: Any) -> str:
    spec, target = load_comparison("linen-vs-nnx"), load_target("cpu")
    resolved = resolve_config(spec, target, case="01_base", arm="linen")
    if config is not None:
        resolved = resolved.replace(config=config)
    given: dict[str, Any] = {"case": "01_base", "arm": "linen", "repeat": 0, "out": OUT}
    command = Command(changes.pop("checkout", CHECKOUT), lambda _: Invocation(argv=("train",)))
    request = Request(comparison="linen-vs-nnx", fresh=changes.pop("fresh", ""))
    return plan_run(request, changes.pop("target", target), resolved, command, **(given | changes)).identity


def test_the_table_of_changes_has_every_key() -> None:
    assert set(CHANGED) | PLACE_KEYS == set(TrainConfig.model_fields)


@pytest.mark.parametrize("key", sorted(key for key, value in CHANGED.items() if value is not None))
def test_identity_changes_with_every_config_value(key: str) -> None:
    config = resolve_config(load_comparison("linen-vs-nnx"), load_target("cpu"), case="01_base", arm="linen").config
    assert getattr(config, key) != CHANGED[key]
    config = config.replace(num_experts=8) if key == "num_experts_per_tok" else config  # at most one per expert
    changed = config.replace(**{key: CHANGED[key]})
    assert identity_of(changed) != identity_of(config)


@pytest.mark.parametrize("key", sorted(PLACE_KEYS))
def test_identity_does_not_depend_on_the_output_folder(key: str) -> None:
    config = resolve_config(load_comparison("linen-vs-nnx"), load_target("cpu"), case="01_base", arm="linen").config
    other: object = False if key == "log_config" else "other"
    assert getattr(config, key) != other
    assert identity_of(config.replace(**{key: other})) == identity_of(config)


def test_other_inputs_of_the_identity() -> None:
    target = load_target("cpu")
    base = identity_of()
    different = [
        identity_of(repeat=1),
        identity_of(fresh="again"),
        identity_of(checkout=MaxviewTrainer(commit="c0ffee", dirty=False, versions={"jax": "2"})),
        identity_of(checkout=WITH_SOURCE),
        identity_of(target=target.replace(environment={"XLA_FLAGS": "--other"})),
        identity_of(target=target.replace(devices=2)),
        identity_of(target=target.replace(name="other")),
    ]
    assert len({base, *different}) == 1 + len(different)
    same = [
        identity_of(out=Path("/other")),
        identity_of(arm="other name"),
        identity_of(case="other name"),
        identity_of(checkout=CHECKOUT.replace(commit="another", dirty=True)),  # the source is equal
        identity_of(target=target.replace(time_limit_s=1)),
    ]
    assert {base} == set(same)


# ---------------------------------------------------------------- names


@given(
    case=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True),
    arms=st.lists(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True), min_size=2, unique=True),
    repeat=st.integers(0, 99),
)
def test_names_are_short_safe_and_different(case: str, arms: list[str], repeat: int) -> None:
    names = [name_run_folder(case, arm, repeat, "0123456789abcdef") for arm in arms]
    assert len(set(names)) == len(names)
    for name in names:
        assert len(name) <= NAME_LENGTH == 64
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name)
        assert name.endswith(f"-r{repeat}-0123456789")


def test_a_name_contains_case_arm_and_repeat() -> None:
    assert name_run_folder("03_dropout", "nnx", 2, "0123456789abcdef") == "03_dropout-nnx-r2-0123456789"


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"comparison": "linen-vs-nx"}, "unknown comparison 'linen-vs-nx' (did you mean 'linen-vs-nnx'?)"),
        ({"cases": ("dropout",)}, "unknown case 'dropout' (did you mean '03_dropout'?)"),
        ({"cases": ("all", "bogus")}, "unknown case 'bogus'"),
        ({"target": "cpu8"}, "unknown target 'cpu8' (did you mean 'cpu-8'?)"),
        ({"model": "tiney"}, "unknown model 'tiney' (did you mean 'tiny'?)"),
        ({"repeats": 0}, "--repeats must be 1 to 100, got 0"),
        ({"repeats": 101}, "--repeats must be 1 to 100, got 101"),
        ({"overrides": ("stepz=3",)}, "command line: unknown key 'stepz' (did you mean 'steps'?)"),
        ({"overrides": ("steps=-3",)}, "command line: steps: should be greater than 0, got -3"),
        ({"overrides": ("learning_rate=1e300",)}, "command line: learning_rate: is infinite in float32 (at most 3.4"),
        ({"overrides": ("learning_rate=1e-50",)}, "command line: learning_rate: is 0 in float32"),
        ({"overrides": ("adam_b2=0.99999999999",)}, "command line: adam_b2: is 1 in float32, got 0.99999999999"),
        ({"overrides": ("steps=1000000000000",)}, "command line: steps: should be less than 2147483648"),
        ({"overrides": ("vocab_size=9",)}, "command line: 'vocab_size' is set by the model file too (configs/models/"),
        ({"overrides": ("pure_nnx=true",)}, "command line: 'pure_nnx' is what the arms of linen-vs-nnx differ in"),
        ({"overrides": ("run_name=x",)}, "command line: 'run_name' is decided by the run's folder"),
        ({"overrides": ("metrics_file=/x",)}, "command line: 'metrics_file' is decided by the run's folder"),
    ],
)
def test_an_invalid_option_is_refused(changes: dict[str, Any], expected: str) -> None:
    (problem,) = problems_of(**changes)
    assert problem.startswith(expected)


def test_all_invalid_options_are_reported_at_once() -> None:
    problems = problems_of(cases=("x", "01_base"), target="y", model="z", repeats=0, overrides=("steps",))
    assert len(problems) == 5
    assert len(problems_of(cases=("x",), overrides=("stepz=3",))) == 2


def test_problems_of_both_arms_are_reported_once() -> None:
    assert len(problems_of(cases=("all",), overrides=("stepz=3", "dtype=int8"))) == 2


def test_a_comparison_that_sets_a_key_of_its_arms_is_refused(tree: Path) -> None:
    path = tree / "comparisons" / "linen-vs-nnx.yml"
    path.write_text(path.read_text().replace("set: {}", "set: {pure_nnx: true}"))
    with pytest.raises(ConfigError, match=re.escape(f"{path}:12: 'pure_nnx' is what the arms")):
        resolve(Request(comparison="linen-vs-nnx"), OUT, root=tree)


def test_mistakes_in_several_files_are_reported_at_once(tree: Path, wording: Wording) -> None:
    (tree / "cases" / "01_base.yml").write_text("# Base.\ndtyp: bfloat16\n")
    (tree / "models" / "tiny.yml").write_text("# Tiny.\nhead_dim: 7.5\n")
    with pytest.raises(ConfigError) as caught:
        resolve(Request(comparison="linen-vs-nnx"), OUT, root=tree)
    first, second = caught.value.problems
    assert first.startswith(f"{tree}/cases/01_base.yml:2: unknown key 'dtyp' ")
    assert second.startswith(f"{tree}/models/tiny.yml:2: head_dim: ")
    for problem in (first, second):
        wording("errors", problem, FOLDER=tree)


def test_an_unknown_arm_gets_a_suggestion() -> None:
    spec = load_comparison("linen-vs-nnx")
    assert resolve_config(spec, load_target("cpu"), case="01_base", arm="nnx").config.pure_nnx
    with pytest.raises(ConfigError, match=r"'linnen' .*\(did you mean 'linen'\?\)"):
        resolve_config(spec, load_target("cpu"), case="01_base", arm="linnen")


# ---------------------------------------------------------------- the checkout


def git(folder: Path, words: Sequence[str]) -> str:
    names = {f"GIT_{role}_{part}": "x@y" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")} | names
    argv = ["git", "-C", str(folder), *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True, env=environment).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    for name in ("model/a.py", "configs/b.py", "configs/cases/c.yml", "tasks/d.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x = 1\n")
    git(folder, ["init", "-q"])
    git(folder, ["add", "."])
    git(folder, ["commit", "-q", "-m", "first"])
    return folder


def test_a_clean_checkout_has_its_commit(checkout: Path) -> None:
    assert trainer_commit(checkout) == (git(checkout, ["rev-parse", "HEAD"]), False)


@pytest.mark.parametrize(
    ("name", "dirty"),
    [("model/a.py", True), ("configs/cases/c.yml", True), ("model/new.py", True), ("tasks/d.py", False)],
)
def test_a_changed_trainer_is_dirty(name: str, dirty: bool, checkout: Path) -> None:
    (checkout / name).write_text("x = 2\n")
    assert trainer_commit(checkout)[1] is dirty


def test_without_a_checkout_there_is_no_commit(tmp_path: Path, checkout: Path) -> None:
    assert trainer_commit(tmp_path) == (None, False)
    assert trainer_commit(checkout / "model") == (None, False)  # a subfolder of another checkout


def test_without_git_there_is_no_commit(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert trainer_commit(checkout) == (None, False)


def test_a_checkout_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, ["init", "-q"])
    assert trainer_commit(tmp_path) == (None, False)


def test_git_hooks_do_not_redirect_to_another_repository(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))
    assert trainer_commit(checkout)[0] == git(checkout, ["rev-parse", "HEAD"])


def test_the_source_digest_depends_on_every_change_of_the_trainer_and_no_other(checkout: Path) -> None:
    before = source_digest(checkout)
    (checkout / "tasks/d.py").write_text("x = 2\n")
    assert source_digest(checkout) == before
    digests = {before}
    (checkout / "model/a.py").write_text("x = 2\n")
    digests.add(source_digest(checkout))
    (checkout / "model/a.py").rename(checkout / "model/renamed.py")
    digests.add(source_digest(checkout))
    (checkout / "configs/b.py").write_text("x = 2\n")
    digests.add(source_digest(checkout))
    (checkout / "model/sub").mkdir()
    (checkout / "model/sub/e.py").write_text("")
    digests.add(source_digest(checkout))
    assert len(digests) == 5


def test_the_checkout_has_the_versions_that_a_run_imports(tmp_path: Path) -> None:
    versions = MaxviewTrainer.find(Arm(name="a"), None, tmp_path, None).versions
    assert {"python", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "trainer source"} <= set(versions)


def test_only_function_needs_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("configs.comparison.Target.launch_settings", lambda *_: pytest.fail("asks for the cluster"))
    with pytest.raises(pytest.fail.Exception, match="asks for the cluster"):
        resolve(request_comparison(CompareOptions(comparison="linen-vs-nnx", target="v6e-32")), OUT)
    monkeypatch.undo()
    request = request_comparison(CompareOptions(comparison="linen-vs-nnx", target="v6e-32", only=("function",)))
    assert isinstance(request, FunctionRequest)
    assert {(plan.backend, plan.config["hardware"]) for plan in resolve(request, OUT)} == {("local", "tpu")}
    eight = load_target("cpu-8")
    assert request.place(eight) == eight  # its flags make the eight devices
