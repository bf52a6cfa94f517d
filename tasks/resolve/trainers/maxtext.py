"""Turns a config of ours into the command that trains it with MaxText, in the words of the version that is installed.

Our keys are MaxText's, so most of them go through as they are. What a version calls otherwise, needs besides, or cannot
do is decided by what its own `base.yml` holds and which decoders it has, never by its number alone: a git checkout has
none that means anything.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from configs.errors import ConfigError, Problems, suggest
from configs.read import read_yaml
from configs.schema import OWN_KEYS, Frozen, TrainConfig
from tasks.resolve.ask_python import ask_python

# where versions keep their trainer: folder of the package, module to run, decoders
_LAYOUTS = (
    ("maxtext", "maxtext.trainers.pre_train.train", "trainers/pre_train/train.py"),
    ("MaxText", "MaxText.train", "train.py"),
)
_SOURCES = ("src", "")  # folders of a checkout that hold the package
# what chooses the dialect, in versions that have both (0.2.2 to 0.2.4: all three; before: some)
DIALECT_KEYS = ("enable_nnx", "pure_nnx_decoder", "pure_nnx")
_DECODERS = {False: "layers/decoders.py", True: "layers/nnx_decoders.py"}
# our key -> what it was called before
_OLD_NAMES = {"learning_rate_final_fraction": "cosine_learning_rate_final_fraction"}
# this machine trains alone
_ALONE = {"skip_jax_distributed_system": "true"}
METRICS = "metrics.jsonl"
PYTHON_IN_POD = "python"
EMPTY = '""'
# MaxText looks for these where its image starts, then in the package that is installed
_BASE_IN_POD = {"maxtext": "src/maxtext/configs/base.yml", "MaxText": "MaxText/configs/base.yml"}


class MaxText(Frozen):
    """One MaxText: the Python that runs it, and what it can do."""

    python: str
    package: str  # the folder with its base.yml
    digest: str = ""  # of its source: what decides a run's outcome even within a version
    module: str
    versions: dict[str, str]  # as installed beside it; of a checkout without "maxtext"
    keys: frozenset[str]  # of its base.yml
    dialects: frozenset[bool]  # which values pure_nnx may have
    source: str | None = None  # folder to start in, for a checkout: Python looks there before it does elsewhere

    @property
    def base_config(self) -> str:
        """The file that every run starts from."""
        return str(Path(self.package) / "configs" / "base.yml")

    @property
    def title(self) -> str:
        """How messages call it."""
        version = self.versions.get("maxtext")
        return f"MaxText {version}" if version and self.source is None else f"MaxText at {self.source or self.package}"


class MaxTextRun(Frozen):
    """One training by MaxText: what to start, and where it writes."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    metrics_file: str
    checkpoints: str


def find_maxtext(python: Path, checkout: Path | None = None) -> MaxText:
    """The MaxText in an environment, or the one in a git checkout run by that environment's Python.

    Raises ConfigError if there is none, or none of a kind that is known.
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
                    digest=_digest(folder),
                    module=module,
                    versions={k: v for k, v in found.versions.items() if source is None or k != "maxtext"},
                    keys=frozenset(map(str, read_yaml(base))),
                    dialects=frozenset(nnx for nnx, file in _DECODERS.items() if (folder / file).is_file()) or {False},
                    source=None if source is None else str(source),
                )
    raise ConfigError([missing])


def plan_maxtext(
    config: TrainConfig,
    maxtext: MaxText,
    directory: Path,
    environment: Mapping[str, str] | None = None,
    *,
    in_pod: bool = False,
) -> MaxTextRun:
    """The command that trains `config` and writes into `directory`, whose last part is the run's name.

    environment: what the target sets. in_pod: it runs in an image, as one of several processes, and `maxtext` is what
    is known here of the MaxText in there. Raises ConfigError with every value that this MaxText cannot do.
    """
    # each of several processes would append to it; of TensorBoard's files, which tell the same, only the first has some
    metrics = "" if in_pod else str(directory / METRICS)
    words = translate(config, maxtext, directory, metrics_file=metrics, alone=not in_pod)
    base, python = maxtext.base_config, maxtext.python
    if in_pod:
        base, python = _BASE_IN_POD[Path(maxtext.package).name], PYTHON_IN_POD
    argv = (python, "-m", maxtext.module, base, *write_words(words))
    # without the second it asks Google Cloud who it is, for minutes
    own = {"JAX_PLATFORMS": "cpu", "DECOUPLE_GCLOUD": "TRUE"} if config.hardware == "cpu" else {}
    return MaxTextRun(
        argv=argv,
        environment={**own, **(environment or {})},
        metrics_file=words["metrics_file"],
        checkpoints=str(directory / "checkpoints"),
    )


def translate(
    config: TrainConfig, maxtext: MaxText, directory: Path, *, metrics_file: str, alone: bool
) -> dict[str, str]:
    """MaxText's key for every key of ours, with the value as its command line reads it. Raises ConfigError.

    alone: the process finds no others, and does not look for them.
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
    words |= problems.attempt(lambda: choose_dialect(config.pure_nnx, maxtext)) or {}
    for key, text in words.items():
        # its reader would take them for a reference, and for the end of the value
        if "${" in text or "\n" in text:
            problems.lines.append(f"{key}={text!r}: MaxText cannot read a value with '${{' or a line break in it")
    problems.raise_any()
    return words


def write_words(words: Mapping[str, str]) -> list[str]:
    """`key=value` as its command line takes them, which reads a value that is not there as none at all."""
    return [f"{key}={value or EMPTY}" for key, value in words.items()]


def choose_dialect(pure_nnx: bool, maxtext: MaxText) -> dict[str, str]:
    """The words that choose Linen or NNX; none where there is only one. Raises ConfigError if it is the other."""
    if pure_nnx not in maxtext.dialects:
        has, lacks = ("Linen", "NNX") if pure_nnx else ("NNX", "Linen")
        raise ConfigError([f"{maxtext.title}: has {has} only, no {lacks}; MaxText 0.2.4 is the last that has both"])
    return {key: show_value(pure_nnx) for key in DIALECT_KEYS if key in maxtext.keys}


def choose_block(config: TrainConfig, maxtext: MaxText) -> dict[str, Any]:
    """The block that has the parts of a layer: MaxText makes its layers of what that says, ours of what the keys say.

    Raises ConfigError if there is none.
    """
    routed = config.num_experts > 1
    if config.attention_type == "mla":
        dense = config.first_num_dense_layers if routed else config.base_num_decoder_layers
        return {"decoder_block": "deepseek", "first_num_dense_layers": dense}
    if not routed:
        return {}
    if config.shared_experts or config.first_num_dense_layers:
        raise ConfigError(
            [f"{maxtext.title}: has no decoder_block with attention_type={config.attention_type} and shared_experts or "
             "first_num_dense_layers (take attention_type=mla, or set both to 0)"]
        )  # fmt: skip
    # it asks that the width of an MLP, of which there is none, be that of an expert
    return {"decoder_block": "mixtral", "base_mlp_dim": config.base_moe_mlp_dim}


def show_value(value: object) -> str:
    """A value as MaxText's command line reads it."""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else str(value)


def _digest(package: Path) -> str:
    """A hash over the code and the configs of a package, of which an editable install may have any."""
    digest = hashlib.sha256()
    for path in sorted([*package.rglob("*.py"), *package.rglob("*.yml")]):
        digest.update(f"{path.relative_to(package)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
