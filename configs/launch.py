"""Lists the backends that run jobs, and reads the backend's settings in a target's file."""

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, SerializeAsAny, ValidationError

from configs.backend_settings import Settings
from configs.errors import ConfigError, suggest

# Name -> package with `settings.py` (SETTINGS), `handle.py` (HANDLE) and `launcher.py` (LAUNCHER). They are imported by
# name, because configs must not depend on tasks.
BACKENDS = {
    "local": "tasks.launch.local",
    "replay": "tasks.launch.replay",
    "xpk": "tasks.launch.xpk",
}


def _check_backend(name: Any) -> str:
    known = tuple(BACKENDS)
    if name not in known:
        raise ValueError(f"unknown backend '{name}'{suggest(str(name), known)}; there are: {', '.join(known)}")
    return str(name)


BackendName = Annotated[str, AfterValidator(_check_backend)]
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def find_part(backend: Any, part: Literal["settings", "handle", "launcher"]) -> Any:
    """Return SETTINGS, HANDLE or LAUNCHER of a backend's package. Raises ValueError for an unknown backend."""
    return getattr(import_module(f"{BACKENDS[_check_backend(backend)]}.{part}"), part.upper())


def settings_model(backend: Any) -> type[Settings]:
    """Return the pydantic class of a backend's settings. Raises ValueError for an unknown backend."""
    model: type[Settings] = find_part(backend, "settings")
    return model


def _of_its_backend(value: Any) -> Any:
    return settings_model(value.get("backend")).model_validate(value) if isinstance(value, dict) else value


# A field of this type is parsed and serialized with the class that its key `backend` names.
Launch = Annotated[SerializeAsAny[Settings], BeforeValidator(_of_its_backend)]


def take_section(value: Any) -> Any:
    """Return a target's data with its backend's section moved to the key `launch`. Raises ValueError if it is bad."""
    if not isinstance(value, dict) or not isinstance(value.get("backend"), str) or value["backend"] not in BACKENDS:
        return value
    backend, model = value["backend"], settings_model(value["backend"])
    expected = {backend} if any(field.is_required() for field in model.model_fields.values()) else set()
    for name in expected ^ {name for name in BACKENDS if value.get(name)}:
        raise ValueError(f"a target has the key '{name}' if its backend is {name}, and only then")
    section = value.get(backend, {})
    known = tuple(name for name in model.model_fields if name != "backend")
    unknown = sorted(f"'{key}'{suggest(key, known)}" for key in section if key not in known)
    if unknown:
        raise ValueError(f"{backend}: unknown key {', '.join(unknown)}")
    return {key: item for key, item in value.items() if key not in BACKENDS} | {"launch": section}


def fill_in[M: Settings](settings: Mapping[str, Any], model: type[M], where: str, environ: Mapping[str, str]) -> M:
    """Return the settings with every `${NAME}` and `${NAME:-default}` replaced from the environment.

    where: the target's file, for messages. Raises ConfigError for unset variables and for invalid values.
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
