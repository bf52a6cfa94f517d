"""Selects the caller's environment variables that a trainer gets: a fixed list, and names in the target's file."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

# needed to start a process, to find devices, for the locale and for TLS; none is a secret
PASSED_ON = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR",
    "LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
    "SSL_CERT_FILE", "SSL_CERT_DIR",
    # the compilation cache saves time and changes no result
    "JAX_COMPILATION_CACHE_*", "JAX_PERSISTENT_CACHE_*",
)  # fmt: skip
# never passed on: settings and tokens of maxview, Prefect and CI. A compared branch could misuse them.
OWN = ("MAXVIEW_*", "PREFECT_*", "GITHUB_*", "GH_TOKEN", "GH_ENTERPRISE_TOKEN", "ACTIONS_*")


def is_own(name: str) -> bool:
    """Return whether a variable must never be passed on to a trainer."""
    return any(fnmatchcase(name, pattern) for pattern in OWN)


def pass_on(caller: Mapping[str, str], patterns: Iterable[str] = PASSED_ON) -> dict[str, str]:
    """Return the caller's variables whose names match a pattern, without those in OWN."""
    patterns = tuple(patterns)  # `any` would consume an iterator
    return {
        name: value
        for name, value in caller.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns) and not is_own(name)
    }
