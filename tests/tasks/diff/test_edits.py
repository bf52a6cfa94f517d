"""Edits of a run without an effect, which must not qualify a verdict, and mistakes, which must all be found.

The log is MaxText's, line by line as it prints them; the keys of its config and the values derived from a run's name
are from its `base.yml` and `types.py` (0.2.4).
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from configs.verdict_rules import load_effects
from tasks.diff.examine.arms import ArmRuns
from tasks.diff.examine.comparability import find_findings
from tasks.diff.examine.parity import compare_metric, shared_metrics
from tasks.records.plan import RunPlan
from tasks.records.run import RunRecord
from tasks.scrape.read_log import scrape_text

NAME, BASE = "linen_main_20260418_180002", "gs://lance/linen_main_20260418_180002"
HOST = "mt-01-base-e6fds-slice-job-0-0.mt-01-base-e6fds"
CONFIG: dict[str, str] = {
    "run_name": NAME, "base_output_directory": BASE,
    "adam_b1": "0.9", "adam_b2": "0.95", "adam_weight_decay": "0.1", "attention": "flash", "base_emb_dim": "2048",
    "compile_xla_flags": "", "data_shuffle_seed": "0", "dataset_name": "c4/en:3.0.1", "dataset_path": "gs://data/c4",
    "dataset_type": "synthetic", "dropout_rate": "0.0", "dtype": "bfloat16", "enable_dropout": "False",
    "enable_goodput_recording": "False", "enable_jax_profiler": "False", "enable_tensorboard": "True",
    "eval_interval": "-1", "gcs_metrics": "False", "grain_worker_count": "1", "gradient_clipping_threshold": "1.0",
    "hardware": "tpu", "ici_fsdp_parallelism": "-1", "ici_tensor_parallelism": "1", "init_weights_seed": "0",
    "jax_cache_dir": "~/jax_cache", "jax_profiler_port": "9999", "learning_rate": "3e-05", "load_parameters_path": "",
    "log_config": "True", "log_period": "100", "max_target_length": "2048", "model_name": "default",
    "monitor_goodput": "False", "packing": "True", "per_device_batch_size": "1.0", "profiler": "",
    "profiler_steps": "5", "prometheus_port": "0", "quantization": "", "remat_policy": "full",
    "report_heartbeat_metric_for_gcp_monitoring": "False", "save_config_to_gcs": "False", "scan_layers": "True",
    "steps": "12", "tokenizer_path": "assets/tokenizer.llama2", "train_split": "train", "upload_all_profiler_results":
    "False", "vertex_tensorboard_project": "", "wandb_run_name": "", "warmup_steps_fraction": "0.1",
}  # fmt: skip
LOSSES = (10.874, 10.861, 10.012, 9.318, 8.702, 8.411, 8.179, 8.021, 7.888, 7.751, 7.634, 7.502)
SECONDS = (9.512, 0.148, 0.147, 0.148, 0.149, 0.148, 0.147, 0.148, 0.148, 0.149, 0.147, 0.148)
OTHERS = (9.512, *reversed(SECONDS[1:]))  # no two runs take equally long at every step

type Edit = Mapping[str, Any]


def derived(config: Mapping[str, str]) -> dict[str, str]:
    """The config values that MaxText derives from name and folder before it prints its config."""
    folder = f"{config['base_output_directory']}/{config['run_name']}"
    return {
        "checkpoint_dir": f"{folder}/checkpoints/", "metrics_dir": f"{folder}/metrics/",
        "tensorboard_dir": f"{folder}/tensorboard/", "managed_mldiagnostics_dir": f"{folder}/managed-mldiagnostics",
        "dump_hlo_gcs_dir": f"{folder}/xla_dump", "dump_jaxpr_gcs_dir": f"{folder}/jaxpr_dump",
        "dump_hlo_xla_flags": "--xla_dump_to=/tmp/xla_dump/ --xla_dump_large_constants",
    }  # fmt: skip


def log_text(edit: Edit) -> str:
    """The log of a run; `config`: keys set; `sub`: (pattern, replacement) over the text; `losses`, `seconds`."""
    config = CONFIG | edit.get("config", {})
    config = dict(sorted((derived(config) | config).items()))
    path = f"{config['checkpoint_dir']}0"
    lines = [
        f"distributed.py:172] Connecting to JAX distributed service on {HOST}:8482",
        *(f"pyconfig.py:584] Config param {key}: {value}" for key, value in config.items()),
        "max_utils.py:800] System Information: Jax Version: 0.9.2",
        "max_utils.py:801] System Information: Jaxlib Version: 0.9.2",
        "max_utils.py:802] System Information: Jax Backend: PJRT C API TFRT TPU v6 lite Built on Mar 4 2026 11:32:08 "
        "(1772652728) cl/878335365",
        "maxtext_utils.py:1551] Num_devices: 32, shape (1, 1, 1, 32, 1, 1)",
        "checkpoint_manager.py:929] [process=0] CheckpointManager created,  primary_host=0",
        "checkpointing.py:665] No existing checkpoints found, not restoring checkpoint.\nfsdp: 32",
        "maxtext_utils.py:1654] params/params/decoder/decoder_norm/scale Shape: float32[2048] Logical: P('norm',) "
        "Physical: (None,)",
        "max_utils.py:791] Total memory size: 1.5 GB, Output size: 0.4 GB, Temp size: 1.1 GB, Argument size: 0.4 GB, "
        "Host temp size: 0.0 GB.",
        "metric_logger.py:301] number parameters: 1.104 billion",
        "checkpoint_manager.py:1512] [process=0] Saving checkpoint at step 0",
        f"atomicity.py:790] [process=0] Finished saving checkpoint (finalized tmp dir) to `{path}`.",
        "max_utils.py:756] Using (GB) 0.43 / 31.25 (1.376000%) on TPU_0(process=0,(0,0,0,0))",
    ]
    rows = zip(edit.get("seconds", SECONDS), edit.get("losses", LOSSES), strict=True)
    for step, (seconds, loss) in enumerate(rows):
        lines.append(
            f"metric_logger.py:196] completed step: {step}, seconds: {seconds:.3f}, "
            f"TFLOP/s/device: {13.59 / seconds:.3f}, Tokens/s/device: {2048 / seconds:.3f}, total_weights: 65536, "
            f"loss: {loss:.3f}, lm_loss: {loss:.3f}"
        )
    stamped = [f"I0418 18:09:{13 + n // 10:02}.{n % 10}17142 135278194456384 {line}" for n, line in enumerate(lines)]
    flops = "Per train step:\n Total TFLOPs: 13.59 \n split as 93.93% learnable weight flops and 6.07% attention flops"
    frame = ["XPK Start: Sat Apr 18 18:08:48 UTC 2026", *stamped, flops, "XPK End: Sat Apr 18 18:11:34 UTC 2026"]
    text = "\n".join([*frame, "EXIT_CODE=0", ""])
    for pattern, replacement in edit.get("sub", ()):
        text, count = re.subn(pattern, replacement, text)
        assert count, pattern
    return text


@pytest.fixture
def run() -> Callable[..., RunRecord]:
    """run(arm, edit): the record of a run whose log and plan were edited."""

    def make(arm: str, edit: Edit, repeat: int = 0) -> RunRecord:
        reading = scrape_text(log_text(edit).encode(), name=f"{arm}.log").runs[0]
        plan = None
        if "plan" in edit:
            fields: dict[str, Any] = {
                "comparison": "main-vs-branch", "case": "01_base", "arm": arm, "repeat": repeat, "trainer": "maxtext",
                "target": "v6e-32", "backend": "xpk", "config": {"steps": 12}, "origins": {}, "commit": None,
                "dirty": False, "versions": {"jax": "0.9.2", "flax": "0.12.12"}, "environment": {}, "argv": ("python",),
                "time_limit_s": 60, "run_name": f"01_base-{arm}-r{repeat}", "identity": f"{arm}{repeat}",
                "directory": f"/out/runs/01_base-{arm}-r{repeat}",
            }  # fmt: skip
            plan = RunPlan(**(fields | edit["plan"]))
        return RunRecord(
            plan=plan, arm=arm, label=arm, commit=edit.get("commit"), log=f"/out/runs/{arm}-r{repeat}/log.txt",
            reading=reading, program=edit.get("program", {}),
        )  # fmt: skip

    return make


@pytest.fixture
def weighty(arm_of: Callable[..., ArmRuns]) -> Callable[..., dict[str, str]]:
    """weighty(baseline runs, candidate runs): the findings that block or qualify, by kind."""

    def find(baseline: list[RunRecord], candidate: list[RunRecord]) -> dict[str, str]:
        arms = arm_of(*baseline), arm_of(*candidate)
        parities = [compare_metric(arms, metric) for metric in shared_metrics(arms)]
        found = find_findings(arms, declared=frozenset(), effects=load_effects(), parities=parities)
        return {f.kind: f.message for f in found if f.effect in ("blocks", "qualifies")}

    return find


def env(**variables: str) -> dict[str, Any]:
    return {"plan": {"environment": variables}}


OTHER = {"run_name": "nnx_feature_20260419_063615", "base_output_directory": "gs://lance/nnx_feature_20260419_063615"}
INNOCENT: dict[str, Edit | tuple[Edit, Edit]] = {
    "run_name": {"config": {"run_name": OTHER["run_name"]}},
    "base_output_directory": {"config": {"base_output_directory": "gs://other-bucket/out"}},
    "name and folder": {"config": OTHER},
    "a name that is a number": {"config": {"run_name": "17"}},
    "a key of tomorrow that holds the name": (
        {"config": {"checkpoint_mirror": f"gs://mirror/{NAME}/x"}},
        {"config": OTHER | {"checkpoint_mirror": f"gs://mirror/{OTHER['run_name']}/x"}},
    ),
    "flags that dump into the run's folder": (
        {"config": {"compile_xla_flags": f"--xla_dump_to={BASE}/{NAME}/hlo --xla_a=1"}},
        {"config": OTHER | {"compile_xla_flags": f"--xla_a=1 --xla_dump_to={OTHER['base_output_directory']}/hlo"}},
    ),
    "hosts and job": {"sub": [("mt-01-base-e6fds", "mt-01-base-27xrd")]},
    "ports": {"config": {"jax_profiler_port": "9998", "prometheus_port": "9090"}, "sub": [(":8482", ":8476")]},
    "profiler": {"config": {"profiler": "xplane", "profiler_steps": "3", "upload_all_profiler_results": "True"}},
    "profiling on demand": {"config": {"enable_jax_profiler": "True"}},
    "compilation cache": {"config": {"jax_cache_dir": "/mnt/cache"}},
    "TensorBoard": {"config": {"enable_tensorboard": "False", "vertex_tensorboard_project": "p"}},
    "TensorBoard's folder": {"config": {"tensorboard_dir": "gs://boards/x"}},
    "log period": {"config": {"log_period": "10"}},
    "metrics to GCS": {"config": {"gcs_metrics": "True", "save_config_to_gcs": "True"}},
    "goodput": {"config": {"enable_goodput_recording": "True", "monitor_goodput": "True"}},
    "heartbeat": {"config": {"report_heartbeat_metric_for_gcp_monitoring": "True"}},
    "wandb": {"config": {"wandb_run_name": "try 2"}},
    "dataset_path of synthetic data": {"config": {"dataset_path": "gs://elsewhere/c4"}},
    "dataset_name of synthetic data": {"config": {"dataset_name": "pile", "train_split": "train[:90%]"}},
    "tokenizer of synthetic data": {"config": {"tokenizer_path": "meta-llama/Llama-3.1-8B"}},
    "grain workers of synthetic data": {"config": {"grain_worker_count": "8"}},
    "an hour later": {"sub": [(r"I0418 18:", "I0418 19:"), (r"Apr 18 18:", "Apr 18 19:")]},
    "another thread": {"sub": [("135278194456384", "133404333967168")]},
    "no launcher around it": {"sub": [(r"XPK (?:Start|End): .*\n", ""), ("EXIT_CODE=0\n", "")]},
    "words of the wrapper": {"sub": [("XPK Start", "+ set -x\nXPK Start"), ("XPK End", "bye\nXPK End")]},
    "a warning more": {"sub": [("I0418 18:09:13", "PyTorch was not found.\nI0418 18:09:13")]},
    "one step's time": {"seconds": (*SECONDS[:5], 0.151, *SECONDS[6:])},
    "plan: names and folders": (
        {"plan": {"config": {"run_name": NAME, "base_output_directory": "/out"}}},
        {"plan": {"config": OTHER, "directory": "/elsewhere/runs/x"}},
    ),
    "plan: pod and job": (env(JOBSET_NAME="a-1", POD_NAME="a-1-0"), env(JOBSET_NAME="b-2", POD_NAME="b-2-0")),
    "plan: coordinator": (
        env(JAX_COORDINATOR_ADDRESS="a-1-0:8482", MEGASCALE_COORDINATOR_ADDRESS="a-1"),
        env(JAX_COORDINATOR_ADDRESS="b-2-0:8476", MEGASCALE_COORDINATOR_ADDRESS="b-2"),
    ),
    "plan: caches and log levels": (
        env(JAX_COMPILATION_CACHE_DIR="/a", TPU_STDERR_LOG_LEVEL="0"),
        env(JAX_COMPILATION_CACHE_DIR="/b", TPU_STDERR_LOG_LEVEL="2", PYTHONUNBUFFERED="1"),
    ),
    "plan: a dump in the run's folder": (
        env(XLA_FLAGS="--xla_dump_to=/out/runs/01_base-main-r0/hlo --xla_a=1"),
        env(XLA_FLAGS="--xla_a=1 --xla_dump_to=/out/runs/01_base-branch-r0/hlo"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INNOCENT)
def test_an_innocent_edit_does_not_qualify(
    name: str, run: Callable[..., RunRecord], weighty: Callable[..., Any]
) -> None:
    edit = INNOCENT[name]
    sides = edit if isinstance(edit, tuple) else ({"seconds": SECONDS} | ({"plan": {}} if "plan" in edit else {}), edit)
    assert weighty([run("main", sides[0])], [run("branch", {"seconds": OTHERS} | sides[1])]) == {}


def state(**arrays: str) -> dict[str, Any]:
    return {"arrays": {f"params/{name}": digest for name, digest in arrays.items()}}


def moved(*pairs: tuple[str, str]) -> Edit:
    return {"commit": "574ad3fb9", "sub": [(re.escape(old), new) for old, new in pairs]}


REAL = {"dataset_type": "tfds"}
PLANTED: dict[str, tuple[Edit | tuple[Edit, Edit], str]] = {
    "seed": ({"config": {"init_weights_seed": "1"}}, "seed"),
    "order of the data": ({"config": {"data_shuffle_seed": "1"}}, "seed"),
    "learning rate": ({"config": {"learning_rate": "0.0003"}}, "config"),
    "batch": ({"config": {"per_device_batch_size": "2.0"}}, "config"),
    "batch, unsaid": ({"sub": [("total_weights: 65536", "total_weights: 131072")]}, "tokens"),
    "dtype": ({"config": {"dtype": "float32"}}, "config"),
    "remat": ({"config": {"remat_policy": "minimal"}}, "config"),
    "quantization": ({"config": {"quantization": "int8"}}, "config"),
    "a run that is called after its quantization": (
        tuple({"config": {"run_name": name, "quantization": name}} for name in ("int8", "fp8")),
        "config",
    ),
    "attention": ({"config": {"attention": "dot_product"}}, "config"),
    "mesh": ({"sub": [(r"\(1, 1, 1, 32, 1, 1\)", "(1, 1, 1, 8, 1, 4)"), ("fsdp: 32", "fsdp: 8\ntensor: 4")]}, "mesh"),
    "synthetic and real data": ({"config": REAL}, "data"),
    "dataset": (({"config": REAL}, {"config": REAL | {"dataset_path": "gs://data/pile"}}), "data"),
    "a dataset in a folder that is called like the run": (
        ({"config": REAL | {"dataset_path": f"{BASE}/{NAME}/c4"}},
         {"config": REAL | OTHER | {"dataset_path": f"{OTHER['base_output_directory']}/{OTHER['run_name']}/c4"}}),
        "data",
    ),
    "tokenizer of real data": (({"config": REAL}, {"config": REAL | {"tokenizer_path": "meta-llama/x"}}), "data"),
    "packing": ({"config": {"packing": "False"}}, "data"),
    "first weights": (
        ({"config": {"load_parameters_path": f"{BASE}/{NAME}/0/items"}},
         {"config": OTHER | {"load_parameters_path": f"{OTHER['base_output_directory']}/{OTHER['run_name']}/0/items"}}),
        "config",
    ),
    "beta": ({"config": {"adam_b2": "0.999"}}, "config"),
    "warmup": ({"config": {"warmup_steps_fraction": "0.0"}}, "config"),
    "weight decay": ({"config": {"adam_weight_decay": "0.0"}}, "config"),
    "clipping": ({"config": {"gradient_clipping_threshold": "0.0"}}, "config"),
    "flags": ({"config": {"compile_xla_flags": "--xla_tpu_enable_latency_hiding_scheduler=true"}}, "xla-flags"),
    "flags of the plan": ((env(), env(LIBTPU_INIT_ARGS="--xla_enable_async_all_gather=true")), "xla-flags"),
    "a variable of the plan": ((env(), env(NVTE_FUSED_ATTN="1")), "environment-variable"),
    "a package": (({"plan": {}}, {"plan": {"versions": {"jax": "0.9.2", "flax": "0.12.0"}}}), "package-version"),
    "JAX": ({"sub": [("Version: 0.9.2", "Version: 0.8.1")]}, "jax-version"),
    "libtpu": ({"sub": [("cl/878335365", "cl/831091709")]}, "libtpu-version"),
    "kind of device": ({"sub": [("TPU v6 lite", "TPU v5 lite")]}, "device-kind"),
    "number of devices": ({"sub": [(r"Num_devices: 32, shape \(1, 1, 1, 32", "Num_devices: 16, shape (1, 1, 1, 16")]},
                          "device-count"),
    "steps": ({"config": {"steps": "10"}, "losses": LOSSES[:10], "seconds": SECONDS[:10]}, "steps"),
    "went on from an old checkpoint": ({"sub": [(r"I0418.*completed step: [012],.*\n", "")]}, "steps"),
    "dropout that is not honoured": ({"config": {"enable_dropout": "True", "dropout_rate": "0.1"}}, "no-effect"),
    "a field less": ({"sub": [(r", lm_loss: [\d.]+", "")]}, "missing-field"),
    "a loss that stands still": ({"losses": (10.874,) * 12}, "constant-field"),
    "an array that is not trained": (
        {"program": {"initial_state": state(wi="1", wo="2"), "state": state(wi="9", wo="2")}}, "frozen-array",
    ),
    "one commit twice": (({"commit": "574ad3fb9"}, {"commit": "574ad3fb9"}), "same-commit"),
    "one commit by name, five lines moved": (
        ({"commit": "574ad3fb9"}, moved(
            ("metric_logger.py:196", "metric_logger.py:185"), ("metric_logger.py:301", "metric_logger.py:289"),
            ("maxtext_utils.py:1551", "maxtext_utils.py:1517"), ("maxtext_utils.py:1654", "maxtext_utils.py:1620"),
        )),
        "other-source",
    ),
    "a log that is cut": ({"sub": [(r"(?s)I0418[^\n]*completed step: 9.*", "")]}, "incomplete-log"),
    "a clock in milliseconds": (
        {"sub": [(r"seconds: 0\.(\d+)", r"seconds: \1.000"), (r"seconds: 9\.512", "seconds: 9512.000")]}, "tokens",
    ),
    "steps that are missing": ({"sub": [(r"I0418.*completed step: [56],.*\n", "")]}, "missing-steps"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_found(name: str, run: Callable[..., RunRecord], weighty: Callable[..., Any]) -> None:
    edit, kind = PLANTED[name]
    sides = edit if isinstance(edit, tuple) else ({}, edit)
    assert kind in weighty([run("main", sides[0])], [run("branch", sides[1])])


@pytest.mark.parametrize(
    "edit",
    [
        {"commit": "bbb"},
        {"config": {"learning_rate": "0.0003"}},
        {"config": {"init_weights_seed": "1"}},
        {"sub": [("Version: 0.9.2", "Version: 0.8.1")]},
        {"sub": [("metric_logger.py:196", "metric_logger.py:185")]},
    ],
    ids=["commit", "learning rate", "seed", "JAX", "source"],
)
def test_a_repeat_with_a_mistake_is_a_finding(
    edit: Edit, run: Callable[..., RunRecord], weighty: Callable[..., Any]
) -> None:
    same: list[Edit] = [{"commit": "aaa", "config": {"run_name": f"r{n}"}} for n in range(3)]
    runs = [run("main", item, n) for n, item in enumerate([same[0], same[1], {"commit": "aaa"} | edit])]
    candidate = [run("branch", item | {"commit": "ccc"}, n) for n, item in enumerate(same)]
    found = weighty(runs, candidate)
    assert "runs of main have different" in found["mixed-runs"]
    assert "mixed-runs" not in weighty(runs[:2], candidate)
