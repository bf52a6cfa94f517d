"""The launcher settings of a target: stored logs to replay, or the cluster that runs the workloads."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from configs.errors import ConfigError
from configs.schema import Frozen

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
# xpk inserts these into YAML and shell commands, so only plain words are safe
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$", max_length=250)]
Flag = Annotated[str, Field(pattern=r"^--[a-z][a-z0-9-]*(=[A-Za-z0-9._:/@+,-]+)?$", max_length=250)]
Lines = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]


class Replay(Frozen):
    """Stored logs that are replayed as jobs.

    `logs`: patterns of a run's log with `{case}`, `{arm}`, `{repeat}` and `*`; the first that matches a file counts.
    `speed`: 1 replays in real time; at 60 a minute of the log takes a second.
    """

    logs: Lines
    speed: Annotated[float, Field(gt=0, allow_inf_nan=True)] = 1.0


class Xpk(Frozen):
    """A cluster created by xpk, and the settings of its workloads."""

    cluster: Word
    project: Word
    zone: Annotated[str, Field(pattern=r"^[a-z]+-[a-z]+\d+-[a-z]$")]
    tpu_type: Word
    image: Word  # with the trainer, its Python first on the path
    num_slices: Annotated[int, Field(ge=1, le=256)] = 1
    priority: Literal["very-low", "low", "medium", "high", "very-high"] = "medium"
    namespace: Word = "default"
    context: Word | None = None  # of the kubeconfig; not set: gke_PROJECT_REGION_CLUSTER
    start_limit_s: Annotated[int, Field(ge=1)] = 4 * 3600  # how long a run may wait for machines
    attempts: Annotated[int, Field(ge=1, le=100)] = 3  # starts of a run that is preempted
    grace_s: Annotated[int, Field(ge=1, le=3600)] = 60  # from SIGTERM to SIGKILL: to save a checkpoint
    shared_out: bool = False  # whether pods mount the output folder at the same path
    argv: Lines = ("xpk",)  # xpk's command, for example [uvx, xpk==1.16.0]
    extra: tuple[Flag, ...] = ()  # further flags of `xpk workload create`, for example [--spot]


def fill_in[M: Frozen](settings: Mapping[str, Any], model: type[M], where: str, environ: Mapping[str, str]) -> M:
    """Return the settings with every `${NAME}` and `${NAME:-default}` replaced from the environment.

    Raises ConfigError naming the target file `where`, the variable and what to type.
    """
    missing: list[str] = []

    def replace(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        value = environ.get(name) or default
        if value is None:
            missing.append(name)
            return ""
        return value

    def walk(value: Any) -> Any:
        if isinstance(value, str):
            return _VARIABLE.sub(replace, value)
        if isinstance(value, Mapping):
            return {key: walk(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return tuple(walk(item) for item in value)
        return value

    filled = walk(settings)
    if missing:
        names = list(dict.fromkeys(missing))
        shown, exports = ", ".join(f"${name}" for name in names), " ".join(f"{name}=…" for name in names)
        raise ConfigError([f"{where}: not set: {shown}; `export {exports}`, or write the values into the file"])
    try:
        return model.model_validate(filled)
    except ValidationError as error:
        raise ConfigError(
            [f"{where}: {'.'.join(map(str, e['loc']))}: {e['msg']}, got {e['input']!r:.80}" for e in error.errors()]
        ) from error
