"""Finds a MaxText, and builds the command that trains a maxview config with it.

Maxview's keys have MaxText's names, so most pass unchanged. Renamed, additional and unsupported keys of a version are
detected from its `base.yml` and decoder files, not from its version number, which is unreliable in a git checkout.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from configs.errors import ConfigError, Problems, suggest
from configs.frozen import Frozen
from configs.installed import digest_files
from configs.read import read_yaml
from configs.schema import OWN_KEYS, TrainConfig
from tasks.records.plan import Invocation
from tasks.resolve.python_environments import ask_python

# Layouts of the package in different versions: package folder, module to run, the trainer's file in the folder.
_LAYOUTS = (
    ("maxtext", "maxtext.trainers.pre_train.train", "trainers/pre_train/train.py"),
    ("MaxText", "MaxText.train", "train.py"),
)
_SOURCES = ("src", "")  # folders of a git checkout that may contain the package
# Keys that choose Linen or NNX, in versions with both (0.2.2 to 0.2.4 have all three keys, earlier versions some).
API_KEYS = ("enable_nnx", "pure_nnx_decoder", "pure_nnx")
# pure_nnx → file with its decoder, in the package's folder
_DECODERS = {False: "layers/decoders.py", True: "layers/nnx_decoders.py"}
# our key → its name in old versions of MaxText
_OLD_NAMES = {"learning_rate_final_fraction": "cosine_learning_rate_final_fraction"}
# Keys for models with experts on a CPU. A CPU would interpret the TPU kernel megablox, at 53 s per step of the tiny
# model.
_ON_CPU = {"megablox": "false"}
# keys for a run with a single process
_ALONE = {"skip_jax_distributed_system": "true"}
METRICS = "metrics.jsonl"
PYTHON_IN_POD = "python"
_CONVERT = " (convert the files to parquet with a column `text`, set grain_file_type=parquet and a tokenizer_path)"
EMPTY = '""'
# In an image, MaxText resolves these paths against the working folder, then against the installed package.
_BASE_IN_POD = {"maxtext": "src/maxtext/configs/base.yml", "MaxText": "MaxText/configs/base.yml"}


class MaxText(Frozen):
    """An installed MaxText or a git checkout of it: the Python that runs it, its config keys and decoders."""

    python: str  # path of the interpreter
    package: str  # the package's folder, which contains configs/base.yml
    digest: str = ""  # hash of the package's source, which can change within a version
    module: str  # to run with `python -m`
    versions: dict[str, str]  # package → version in the environment; without "maxtext" for a checkout
    keys: frozenset[str]  # config keys in its base.yml
    pure_nnx_values: frozenset[bool]  # the supported values of pure_nnx
    source: str | None = None  # for a checkout, the run's working folder: Python imports from it first

    @property
    def base_config(self) -> str:
        """The path of MaxText's base.yml on this machine, the first argument of a run outside of pods."""
        return str(Path(self.package) / "configs" / "base.yml")

    @property
    def title(self) -> str:
        """The name of this MaxText in messages: its version or its folder."""
        version = self.versions.get("maxtext")
        return f"MaxText {version}" if version and self.source is None else f"MaxText at {self.source or self.package}"


def find_maxtext(python: Path, checkout: Path | None = None) -> MaxText:
    """Return the MaxText in an environment, or in a git checkout that the environment's Python runs.

    Raises ConfigError if there is none, or if its layout is unknown.
    """
    found = ask_python(str(python), [name for name, _, _ in _LAYOUTS])
    places: list[tuple[Path, Path | None]]
    if checkout is None:
        places = [(Path(folder), None) for folder in found.folders.values()]
        missing = f"{python}: has no MaxText (uv pip install -p {python} --resolution=lowest 'maxtext[tpu]==0.2.5')"
    else:
        places = [(checkout / base / name, checkout / base) for base in _SOURCES for name, _, _ in _LAYOUTS]
        missing = f"{checkout}: is no checkout of MaxText: neither src/maxtext, src/MaxText nor MaxText is in it"
    for folder, source in places:
        for name, module, trainer in _LAYOUTS:
            base = folder / "configs" / "base.yml"
            if folder.name == name and (folder / trainer).is_file() and base.is_file():
                return MaxText(
                    python=str(python),
                    package=str(folder),
                    # the source of an editable install can change within a version
                    digest=digest_files(folder, [*folder.rglob("*.py"), *folder.rglob("*.yml")])[:12],
                    module=module,
                    versions={k: v for k, v in found.versions.items() if source is None or k != "maxtext"},
                    keys=frozenset(map(str, read_yaml(base))),
                    pure_nnx_values=frozenset(nnx for nnx, file in _DECODERS.items() if (folder / file).is_file())
                    or {False},
                    source=None if source is None else str(source),
                )
    raise ConfigError([missing])


def plan_maxtext(
    config: TrainConfig, maxtext: MaxText, directory: Path, *, in_pod: bool = False, alone: bool = True
) -> Invocation:
    """Return the invocation that trains `config` and writes into `directory`, a folder with the run's name.

    in_pod: the command runs in an image; `maxtext` is this machine's copy of the image's version. alone: the run has a
    single process. Raises ConfigError with values that this MaxText does not support.
    """
    # Of several processes each would append to the file. Process 0 writes the same metrics as TensorBoard files.
    metrics = "" if in_pod or not alone else str(directory / METRICS)
    if config.dataset_type == "grain" and config.grain_file_type == "txt":
        raise ConfigError([f"{maxtext.title}: reads no grain_file_type=txt{_CONVERT}"])
    words = translate_config(config, maxtext, directory, metrics_file=metrics, alone=alone and not in_pod)
    base, python = maxtext.base_config, maxtext.python
    if in_pod:
        base, python = _BASE_IN_POD[Path(maxtext.package).name], PYTHON_IN_POD
    argv = (python, "-m", maxtext.module, base, *write_words(words))
    # Without DECOUPLE_GCLOUD, MaxText retries Google Cloud's metadata server for minutes.
    on_cpu = config.hardware == "cpu" and not in_pod
    return Invocation(argv=argv, environment={"JAX_PLATFORMS": "cpu", "DECOUPLE_GCLOUD": "TRUE"} if on_cpu else {})


def translate_config(
    config: TrainConfig, maxtext: MaxText, directory: Path, *, metrics_file: str, alone: bool
) -> dict[str, str]:
    """Return a config as MaxText's keys and values, the values in the syntax of its command line. Raises ConfigError.

    alone: the run has a single process, which skips jax.distributed.
    """
    problems = Problems()
    values: dict[str, Any] = config.model_dump(exclude={"pure_nnx", "run_name", "base_output_directory"})
    values["metrics_file"] = metrics_file
    values |= problems.attempt(lambda: choose_block(config, maxtext)) or {}
    words = {"run_name": directory.name, "base_output_directory": str(directory.parent)}
    for key, value in values.items():
        if key in OWN_KEYS and value == OWN_KEYS[key]:
            continue
        name = key if key in maxtext.keys else _OLD_NAMES.get(key, key)
        if name in maxtext.keys:
            words[name] = show_value(value)
        else:
            problems.lines.append(f"{maxtext.title}: has no key '{key}'{suggest(key, sorted(maxtext.keys))}")
    words |= {key: value for key, value in _ALONE.items() if alone and key in maxtext.keys}
    routed_on_cpu = config.hardware == "cpu" and config.num_experts > 1
    words |= {key: value for key, value in _ON_CPU.items() if routed_on_cpu and key in maxtext.keys}
    words |= problems.attempt(lambda: choose_api(config.pure_nnx, maxtext)) or {}
    for key, text in words.items():
        # MaxText's parser (OmegaConf) takes `${` for a reference and a line break for the value's end.
        if "${" in text or "\n" in text:
            problems.lines.append(f"{key}={text!r}: MaxText cannot read a value with '${{' or a line break in it")
    problems.raise_any()
    return words


def write_words(words: Mapping[str, str]) -> list[str]:
    """Return `key=value` arguments for MaxText. Quotes an empty value, which MaxText would read as null."""
    return [f"{key}={value or EMPTY}" for key, value in words.items()]


def choose_api(pure_nnx: bool, maxtext: MaxText) -> dict[str, str]:
    """Return key → value of this MaxText's API_KEYS, for Linen or NNX. Raises ConfigError if it lacks that API."""
    if pure_nnx not in maxtext.pure_nnx_values:
        has, lacks = ("Linen", "NNX") if pure_nnx else ("NNX", "Linen")
        raise ConfigError([f"{maxtext.title}: has {has} only, no {lacks}; MaxText 0.2.4 is the last that has both"])
    return {key: show_value(pure_nnx) for key in API_KEYS if key in maxtext.keys}


def choose_block(config: TrainConfig, maxtext: MaxText) -> dict[str, Any]:
    """Return MaxText's `decoder_block` for a config, and the keys that depend on it; empty for the default block.

    MaxText chooses layers by block, maxview's trainer by single keys. Raises ConfigError if no block fits the config.
    """
    routed = config.num_experts > 1
    has_no_block = f"{maxtext.title}: has no decoder_block with attention_type={config.attention_type} and "
    if config.attention_type == "mla":
        if routed and config.norm_topk_prob:
            raise ConfigError([f"{has_no_block}norm_topk_prob=true (take attention_type=global, or set it to false)"])
        dense = config.first_num_dense_layers if routed else config.base_num_decoder_layers
        # With max_position_embeddings > original_max_position_embeddings, MaxText would use YaRN. Without softmax,
        # expert weights would be raw logits.
        return {
            "decoder_block": "deepseek",
            "first_num_dense_layers": dense,
            "max_position_embeddings": config.max_target_length,
            "original_max_position_embeddings": config.max_target_length,
            "routed_score_func": "softmax",
        }
    if not routed:
        return {}
    if config.shared_experts or config.first_num_dense_layers:
        keys = "shared_experts or first_num_dense_layers (take attention_type=mla, or set both to 0)"
        raise ConfigError([has_no_block + keys])
    if not config.norm_topk_prob:
        raise ConfigError([f"{has_no_block}norm_topk_prob=false (take attention_type=mla, or set it to true)"])
    # MaxText requires the MLP's width to equal an expert's, although mixtral has no dense MLP.
    return {"decoder_block": "mixtral", "base_mlp_dim": config.base_moe_mlp_dim}


def show_value(value: object) -> str:
    """Return a config value in the syntax of MaxText's command line."""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else str(value)
