"""Our configs in the keys of each MaxText version; with MAXVIEW_MAXTEXT_PYTHON also a real training."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.comparison import load_comparison, load_target
from configs.errors import ConfigError
from configs.schema import OWN_KEYS, TrainConfig
from tasks.records.plan import RunFiles
from tasks.resolve.arm_config import resolve_config
from tasks.resolve.trainers.maxtext import MaxText, find_maxtext, plan_maxtext, show_value
from tasks.resolve.trainers.maxtext_metrics import read_maxtext_metrics
from tasks.scrape.read_log import scrape_run
from tests.wording.sentences import Wording

OURS = frozenset(TrainConfig.model_fields) - OWN_KEYS.keys()
BOTH = {"enable_nnx", "pure_nnx_decoder", "pure_nnx"}


@pytest.fixture
def config() -> Callable[..., TrainConfig]:
    def resolve(arm: str = "nnx", *overrides: str, case: str = "01_base") -> TrainConfig:
        comparison, target = load_comparison("linen-vs-nnx"), load_target("cpu")
        return resolve_config(comparison, target, case=case, arm=arm, overrides=overrides).config

    return resolve


def installed(keys: frozenset[str], *pure_nnx_values: bool, version: str = "0.2.4") -> MaxText:
    """A MaxText with these keys in its base.yml."""
    return MaxText(
        python="/venv/bin/python",
        package="/venv/lib/maxtext",
        module="maxtext.trainers.pre_train.train",
        versions={"maxtext": version},
        keys=keys,
        pure_nnx_values=frozenset(pure_nnx_values),
    )


# keys of a block beside ours
BLOCK = {"decoder_block", "max_position_embeddings", "original_max_position_embeddings", "routed_score_func"}
RELEASES = {
    "0.2.4": installed(OURS | BOTH | BLOCK | {"skip_jax_distributed_system"}, False, True),
    "0.2.5": installed(OURS - {"pure_nnx"} | BLOCK | {"skip_jax_distributed_system"}, True, version="0.2.5"),
}


def words_of(argv: tuple[str, ...]) -> dict[str, str]:
    """Parse arguments like MaxText: OmegaConf reads `key=` as None and `key=""` as an empty text."""
    words = [word.split("=", 1) for word in argv[4:]]
    assert all(value for _, value in words)
    return {key: "" if value == '""' else value for key, value in words}


@pytest.mark.parametrize(("arm", "chosen"), [("linen", "false"), ("nnx", "true")])
def test_both_apis_in_the_release_that_has_both(config: Callable[..., TrainConfig], arm: str, chosen: str) -> None:
    run = plan_maxtext(config(arm), RELEASES["0.2.4"], Path("/out/runs/01_base-r0"))
    assert run.argv[:4] == (
        "/venv/bin/python", "-m", "maxtext.trainers.pre_train.train", "/venv/lib/maxtext/configs/base.yml",
    )  # fmt: skip
    words = words_of(run.argv)
    assert {key: words[key] for key in BOTH} == dict.fromkeys(BOTH, chosen)
    # MaxText writes its run to base_output_directory/run_name
    assert (words["run_name"], words["base_output_directory"]) == ("01_base-r0", "/out/runs")
    assert run.files == RunFiles()
    assert words["metrics_file"] == "/out/runs/01_base-r0/metrics.jsonl"
    assert set(words) == OURS | BOTH | {"skip_jax_distributed_system"}


@pytest.mark.parametrize(
    ("case", "hardware", "expected"), [("06_moe", "cpu", "false"), ("06_moe", "tpu", None), ("01_base", "cpu", None)]
)
def test_experts_on_a_cpu_do_not_use_the_tpu_kernel(
    config: Callable[..., TrainConfig], case: str, hardware: str, expected: str | None
) -> None:
    release = RELEASES["0.2.4"]
    maxtext = release.replace(keys=release.keys | {"megablox"})
    wanted = config("nnx", case=case).replace(hardware=hardware)
    assert words_of(plan_maxtext(wanted, maxtext, Path("/out/r")).argv).get("megablox") == expected


def test_values_are_passed_on_unchanged(config: Callable[..., TrainConfig]) -> None:
    wanted = config("nnx", "learning_rate=3e-4", "enable_checkpointing=false", "steps=7", case="03_dropout")
    words = words_of(plan_maxtext(wanted, RELEASES["0.2.4"], Path("/out/r")).argv)
    assert (words["learning_rate"], words["enable_checkpointing"], words["steps"]) == ("0.0003", "false", "7")
    assert (words["dropout_rate"], words["max_target_length"], words["enable_dropout"]) == ("0.1", "128", "true")
    for key in OURS - BOTH - {"run_name", "base_output_directory", "metrics_file"}:
        assert words[key] == show_value(getattr(wanted, key)), key


@pytest.mark.parametrize(
    ("case", "overrides", "block", "mlp", "dense"),
    [
        ("06_moe", (), "mixtral", "128", "0"),
        ("07_mla", (), "deepseek", "256", "4"),  # all four layers
        ("07_mla", ("num_experts=8", "shared_experts=1", "first_num_dense_layers=1"), "deepseek", "256", "1"),
    ],
)
def test_the_decoder_block_follows_from_the_configs_parts(
    case: str, overrides: tuple[str, ...], block: str, mlp: str, dense: str, config: Callable[..., TrainConfig]
) -> None:
    words = words_of(plan_maxtext(config("nnx", *overrides, case=case), RELEASES["0.2.4"], Path("/out/r")).argv)
    assert (words["decoder_block"], words["base_mlp_dim"], words["first_num_dense_layers"]) == (block, mlp, dense)


def test_latent_attention_scales_no_position(config: Callable[..., TrainConfig]) -> None:
    """MaxText's MLA applies YaRN's factor if there are more positions than `original_max_position_embeddings`; its
    defaults (163840 and 4096) always do. Without `routed_score_func`, expert weights are raw logits.
    """
    words = words_of(plan_maxtext(config("nnx", case="07_mla"), RELEASES["0.2.4"], Path("/out/r")).argv)
    assert words["max_position_embeddings"] == words["original_max_position_embeddings"] == words["max_target_length"]
    assert words["routed_score_func"] == "softmax"


@pytest.mark.parametrize(
    ("case", "override", "kind", "lacks"),
    [
        ("06_moe", "shared_experts=1", "global", "shared_experts or first"),
        ("06_moe", "norm_topk_prob=false", "global", "norm_topk_prob=false"),  # its mixtral always normalises
        ("07_mla", "norm_topk_prob=true", "mla", "norm_topk_prob=true"),  # and its deepseek never does with a softmax
    ],
)
def test_configs_without_a_matching_block_are_refused(
    case: str, override: str, kind: str, lacks: str, config: Callable[..., TrainConfig]
) -> None:
    with pytest.raises(
        ConfigError, match=rf"^MaxText 0\.2\.4: has no decoder_block with attention_type={kind} and {lacks}"
    ):
        plan_maxtext(config("nnx", override, "num_experts=8", case=case), RELEASES["0.2.4"], Path("/out/r"))


def test_plain_text_is_refused_with_maxtexts_formats(config: Callable[..., TrainConfig]) -> None:
    with pytest.raises(ConfigError, match=r"^MaxText 0\.2\.4: reads no grain_file_type=txt .*grain_file_type=parquet"):
        plan_maxtext(config("nnx", case="08_packing"), RELEASES["0.2.4"], Path("/out/r"))
    texts = config("nnx", case="08_packing").replace(grain_file_type="parquet", tokenizer_path="t")
    words = words_of(
        plan_maxtext(texts, RELEASES["0.2.4"].replace(keys=OURS | BOTH | OWN_KEYS.keys()), Path("/out/r")).argv
    )
    assert (words["grain_file_type"], words["tokenizer_path"]) == ("parquet", "t")


def test_a_release_without_linen_is_reported(config: Callable[..., TrainConfig], wording: Wording) -> None:
    words = words_of(plan_maxtext(config("nnx"), RELEASES["0.2.5"], Path("/out/r")).argv)
    assert not set(words) & BOTH
    with pytest.raises(ConfigError, match=r"MaxText 0\.2\.5: .*MaxText 0\.2\.4 ") as error:
        plan_maxtext(config("linen"), RELEASES["0.2.5"], Path("/out/r"))
    wording("errors", error.value)


def test_a_renamed_key(config: Callable[..., TrainConfig]) -> None:
    keys = OURS - {"learning_rate_final_fraction"} | {"cosine_learning_rate_final_fraction"}
    words = words_of(plan_maxtext(config("linen"), installed(keys, False), Path("/out/r")).argv)
    assert words["cosine_learning_rate_final_fraction"] == "0.1"


def test_all_keys_unknown_to_a_version_are_reported_at_once(
    config: Callable[..., TrainConfig], wording: Wording
) -> None:
    keys = OURS - {"adam_eps_root", "rope_max_timescale"} | {"rope_max_timescales"}
    with pytest.raises(ConfigError) as caught:
        plan_maxtext(config("nnx"), installed(keys, False), Path("/out/r"))
    text = str(caught.value)
    assert "has no key 'adam_eps_root'" in text
    assert "'rope_max_timescale' (did you mean 'rope_max_timescales'?)" in text
    wording("errors", text)


def test_values_that_omegaconf_would_misread_are_refused(config: Callable[..., TrainConfig]) -> None:
    with pytest.raises(ConfigError, match="MaxText cannot read"):
        plan_maxtext(config("nnx"), RELEASES["0.2.4"], Path("/out/${oc.env:HOME}/r"))


def test_the_environment(config: Callable[..., TrainConfig]) -> None:
    run = plan_maxtext(config("nnx"), RELEASES["0.2.4"], Path("/out/r"))
    assert run.environment == {"JAX_PLATFORMS": "cpu", "DECOUPLE_GCLOUD": "TRUE"}


@pytest.mark.parametrize(
    ("place", "module", "trainer"),
    [
        ("src/maxtext", "maxtext.trainers.pre_train.train", "trainers/pre_train/train.py"),
        ("src/MaxText", "MaxText.train", "train.py"),
        ("MaxText", "MaxText.train", "train.py"),
    ],
)
def test_checkouts_of_any_age(
    place: str, module: str, trainer: str, tmp_path: Path, config: Callable[..., TrainConfig]
) -> None:
    package = tmp_path / place
    for file in (trainer, "layers/decoders.py", "configs/base.yml"):
        (package / file).parent.mkdir(parents=True, exist_ok=True)
        (package / file).write_text("")
    (package / "configs/base.yml").write_text("".join(f"{key}: 0\n" for key in OURS))
    found = find_maxtext(Path(sys.executable), tmp_path)
    assert (found.module, found.package, found.source) == (module, str(package), str(package.parent))
    assert (found.keys, found.pure_nnx_values) == (OURS, frozenset({False}))
    assert "maxtext" not in found.versions
    assert found.title == f"MaxText at {package.parent}"


def test_environments_without_maxtext_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be run"):
        find_maxtext(tmp_path / "python")
    with pytest.raises(ConfigError, match="is no checkout of MaxText"):
        find_maxtext(Path(sys.executable), tmp_path)
    with pytest.raises(ConfigError, match=r"has no MaxText \(uv pip install"):
        find_maxtext(Path(sys.executable))
    with pytest.raises(ConfigError, match="is no Python"):
        find_maxtext(Path("/bin/false"))


# two lines of MaxText 0.2.4 with eval_interval=3, shortened; then one that a crash truncated
LINES = (
    {"learning/loss": 6.6514, "learning/grad_norm": 1.0, "learning/param_norm": 186.5, "learning/total_weights": 128.0,
     "perf/step_time_seconds": 0.5, "step": 0.0, "run_name": "24-eval"},
    {"eval/avg_loss": 6.6, "eval/total_weights": 128.0, "step": 0.0, "run_name": "24-eval"},
)  # fmt: skip


def test_metrics_become_our_columns(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    again = LINES[0] | {"learning/loss": float("nan")}
    later = LINES[0] | {"step": 1.0}
    path.write_text("".join(f"{json.dumps(line)}\n" for line in (*LINES, later, again)) + '{"learning/lo')
    frame = read_maxtext_metrics(path)
    assert frame is not None
    assert frame.columns == ["loss", "grad_norm", "param_norm", "total_weights", "step_time_s", "step"]
    assert frame["step"].to_list() == [0, 1]
    assert frame["loss"].is_nan().to_list() == [True, False]
    assert frame["total_weights"].to_list() == [128, 128]


def test_files_without_metrics(tmp_path: Path) -> None:
    assert read_maxtext_metrics(tmp_path / "none") is None
    path = tmp_path / "m.jsonl"
    path.write_text("nonsense\n")
    with pytest.raises(ValueError, match=r"m\.jsonl:1: .*'nonsense'"):
        read_maxtext_metrics(path)


@pytest.mark.long
@pytest.mark.parametrize("arm", [pytest.param("linen", marks=pytest.mark.by_hand), "nnx"])
def test_a_real_training(arm: str, config: Callable[..., TrainConfig], real_python: Path, tmp_path: Path) -> None:
    maxtext = find_maxtext(real_python)
    if (arm == "nnx") not in maxtext.pure_nnx_values:
        pytest.skip(f"{maxtext.title} has no {arm}")
    run = plan_maxtext(config(arm, "steps=3"), maxtext, tmp_path / "run")
    log = tmp_path / "log.txt"
    with log.open("w") as file:
        subprocess.run(run.argv, env={**os.environ, **run.environment}, stdout=file, stderr=file, check=True)
    reading, metrics = scrape_run(log), read_maxtext_metrics(tmp_path / "run" / run.files.metrics)
    assert metrics is not None
    assert reading.fate == "finished"
    assert metrics["step"].to_list() == reading.steps["step"].to_list() == [0, 1, 2]
    assert [f"{loss:.3f}" for loss in metrics["loss"]] == [f"{loss:.3f}" for loss in reading.steps["loss"]]
    assert [(event.step, event.committed) for event in reading.checkpoints] == [(0, True), (2, True)]
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir()) == ["0", "2"]
