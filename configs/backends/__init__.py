"""Lists the backends, which run jobs (`local`: on this machine), and reads a backend's settings.

A target is a place to run. Its file selects a backend. The file's section with the backend's name has the backend's
settings; a backend without settings, such as `local`, has no section.
"""

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, SerializeAsAny, ValidationError

from configs.backends.settings import Settings
from configs.errors import ConfigError, suggest

# name -> module with SETTINGS; `BACKENDS` of tasks/launch/backend.py has the jobs of the same names
BACKENDS = {name: f"configs.backends.{name}" for name in ("local", "jobset", "slurm", "xpk")}


def check_backend(name: Any) -> str:
    """Return the name of a backend. Raises ValueError for another name."""
    known = tuple(BACKENDS)
    if name not in known:
        raise ValueError(f"unknown backend '{name}'{suggest(str(name), known)}; there are: {', '.join(known)}")
    return str(name)


BackendName = Annotated[str, AfterValidator(check_backend)]
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def settings_model(backend: Any) -> type[Settings]:
    """Return the pydantic class of a backend's settings. Raises ValueError for an unknown backend."""
    model: type[Settings] = import_module(BACKENDS[check_backend(backend)]).SETTINGS
    return model


def _parse_settings(value: Any) -> Any:
    return settings_model(value.get("backend")).model_validate(value) if isinstance(value, dict) else value


# Type of a field with any backend's settings. The key `backend` selects the class that parses and serializes them.
LaunchSettings = Annotated[SerializeAsAny[Settings], BeforeValidator(_parse_settings)]


def take_section(value: Any) -> Any:
    """Return a target's data with its backend's section moved to the key `launch`.

    Raises ValueError for another backend's section or an unknown key in the section. A backend with required settings
    must have a section; a backend without them, such as `local`, must have none. Data with an unknown backend is
    returned unchanged.
    """
    if not isinstance(value, dict) or not isinstance(value.get("backend"), str) or value["backend"] not in BACKENDS:
        return value
    if value.get("launch"):  # the fields of a target: a file has no such key
        return value
    backend, model = value["backend"], settings_model(value["backend"])
    expected = {backend} if any(field.is_required() for field in model.model_fields.values()) else set()
    for name in expected ^ {name for name in BACKENDS if value.get(name)}:
        if name != backend:
            raise ValueError(f"the key '{name}' has settings of another backend than {backend}: leave it out")
        if expected:
            raise ValueError(f"the backend {backend} needs settings: write them under the key '{backend}'")
        raise ValueError(f"the backend {backend} has no settings: leave the key '{backend}' out")
    section = value.get(backend, {})
    known = tuple(name for name in model.model_fields if name != "backend")
    unknown = sorted(f"'{key}'{suggest(key, known)}" for key in section if key not in known)
    if unknown:
        raise ValueError(f"{backend}: unknown key {', '.join(unknown)}")
    return {key: item for key, item in value.items() if key not in BACKENDS} | {"launch": section}


def fill_in[M: Settings](settings: Mapping[str, Any], model: type[M], where: str, environ: Mapping[str, str]) -> M:
    """Return the settings as a `model`, with every `${NAME}` and `${NAME:-default}` replaced from the environment.

    An empty variable counts as unset. where: the target's file, for messages. Raises ConfigError for invalid values,
    and for unset variables without a default.
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
