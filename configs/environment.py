"""Selects the caller's environment variables that a trainer gets: a fixed list and the names in its target."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

# variables to start, to find devices, and for the locale; none is a secret
PASSED_ON = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR",
    "LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
    "SSL_CERT_FILE", "SSL_CERT_DIR",
    # the compilation cache saves time and changes no result
    "JAX_COMPILATION_CACHE_*", "JAX_PERSISTENT_CACHE_*",
)  # fmt: skip
# of maxview, Prefect and CI: a branch could act in our name with them
OWN = ("MAXVIEW_*", "PREFECT_*", "GITHUB_*", "GH_TOKEN", "GH_ENTERPRISE_TOKEN", "ACTIONS_*")


def is_own(name: str) -> bool:
    """Return whether a variable is never passed on."""
    return any(fnmatchcase(name, pattern) for pattern in OWN)


def pass_on(caller: Mapping[str, str], patterns: Iterable[str] = PASSED_ON) -> dict[str, str]:
    """Return the caller's variables that match a pattern, without maxview's own."""
    wanted = tuple(patterns)
    return {
        name: value
        for name, value in caller.items()
        if any(fnmatchcase(name, pattern) for pattern in wanted) and not is_own(name)
    }
