"""Which variables of the caller's environment a trainer gets: those of one list, and those that its target names."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

# what programs need to start, find their devices and speak the user's language; none is a secret
PASSED_ON = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR",
    "LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
    "SSL_CERT_FILE", "SSL_CERT_DIR",
    # where a program that was compiled is found again, which saves time and changes nothing
    "JAX_COMPILATION_CACHE_*", "JAX_PERSISTENT_CACHE_*",
)  # fmt: skip
# maxview's, its engine's and its CI's own: what a branch could speak in our name with
OWN = ("MAXVIEW_*", "PREFECT_*", "GITHUB_*", "GH_TOKEN", "GH_ENTERPRISE_TOKEN", "ACTIONS_*")


def is_own(name: str) -> bool:
    """Whether a variable is never passed on, whoever asks for it."""
    return any(fnmatchcase(name, pattern) for pattern in OWN)


def pass_on(caller: Mapping[str, str], patterns: Iterable[str] = PASSED_ON) -> dict[str, str]:
    """The caller's variables that fit a pattern; none of maxview's own."""
    wanted = tuple(patterns)
    return {
        name: value
        for name, value in caller.items()
        if any(fnmatchcase(name, pattern) for pattern in wanted) and not is_own(name)
    }
