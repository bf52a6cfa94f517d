"""Builds a virtual environment with uv from the packages of an arm, and queries the packages of an interpreter.

An arm (one of the two compared versions) names packages as `jax==0.11.0` or `maxtext==0.2.5`. The word `project` means
the dependencies in the pyproject.toml of the arm's checkout.
"""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from configs import installed
from configs.environment import PASSED_ON, pass_on
from configs.errors import ConfigError

FOLDER = "environments"  # folder in the cache
PROJECT = "project"  # the dependencies in the checkout's own pyproject.toml
MAXTEXT = "maxtext"
BUILD_TIMEOUT_S = 1800.0
TAIL_LINES = 6  # number of lines of uv's error output that a message shows
# Variables that uv gets besides PASSED_ON, e.g. for package indexes, their credentials, and proxies.
FOR_UV = ("UV_*", "PIP_*", "NETRC", "XDG_*", *(f"{kind}_proxy" for kind in ("http", "https", "all", "no")),
          *(f"{kind}_PROXY" for kind in ("HTTP", "HTTPS", "ALL", "NO")))  # fmt: skip


class SoftwareError(ValueError):
    """The packages of an arm cannot be installed or do not fit its trainer."""


def check_packages(words: Sequence[str]) -> list[str]:
    """Return a problem for every word that is neither `project` nor a requirement such as `jax==0.11.0`."""
    problems = []
    for word in words:
        if word == PROJECT:
            continue
        try:
            if not word.isprintable():
                raise InvalidRequirement("characters that cannot be printed")
            Requirement(word)
        except InvalidRequirement as error:
            reason = str(error).splitlines()[0]
            problems.append(f"{word!r:.80} is no requirement such as jax==0.11.0, nor '{PROJECT}' ({reason})")
    return problems


def find_python(words: Sequence[str], checkout: Path, cache: Path) -> str:
    """Return the path of an interpreter with the checkout's dependencies and the packages that `words` names.

    A word such as `jax==0.11.0` replaces the checkout's requirement on that package. The requirements of other packages
    still apply, so that a conflict fails here, not at run time. Raises ConfigError for an invalid word or without a
    pyproject.toml, and SoftwareError if the build fails.
    """
    problems = check_packages(words)
    if problems:
        raise ConfigError(problems)
    project = checkout / "pyproject.toml"
    if not project.is_file():
        raise ConfigError([f"{checkout}: has no pyproject.toml with its trainer's dependencies"])
    asked = sorted(word for word in words if word != PROJECT)
    names = {canonicalize_name(Requirement(word).name) for word in asked}
    kept = [str(item) for item in read_dependencies(project) if canonicalize_name(item.name) not in names]
    facts = [platform.python_version(), *asked, *kept, project.read_text(encoding="utf-8")]
    return _build(cache, facts, checkout, [*kept, *asked])


def make_maxtext_environment(words: Sequence[str], cache: Path) -> str:
    """Return the path of an interpreter with a MaxText; one of the words is MaxText's version (`maxtext==0.2.5`).

    Other words name versions of other packages; the word `project` is ignored. A package that no word names gets the
    oldest allowed version, because MaxText was released with the oldest versions that it allows.
    Raises ConfigError for invalid words or without a MaxText among them, SoftwareError if the build fails.
    """
    problems = check_packages(words)
    requirements = [Requirement(word) for word in words if not problems and word != PROJECT]
    named = [item for item in requirements if canonicalize_name(item.name) == MAXTEXT and (item.specifier or item.url)]
    if not problems and not named:
        problems.append(f"{', '.join(words)}: which MaxText? Name its version, for example maxtext==0.2.5")
    if problems:
        raise ConfigError(problems)
    for item in named:
        item.extras = item.extras or {"tpu"}  # without an extra MaxText cannot be imported; `tpu` runs on CPUs too
    texts = sorted(map(str, requirements))
    return _build(cache, [MAXTEXT, platform.python_version(), *texts], cache, texts, "--resolution=lowest")


def _build(cache: Path, facts: Sequence[str], place: Path, requirements: Sequence[str], *options: str) -> str:
    """Return the path of an interpreter with the packages `requirements`.

    Builds the environment unless an earlier call built one from the same `facts`. place: uv's working folder, whose uv
    settings apply, such as `exclude-newer`. options: of `uv pip install`.
    """
    folder = cache / FOLDER / hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]
    python = str(folder / "bin" / "python")
    if folder.is_dir():
        return python
    uv = shutil.which("uv")
    if uv is None:
        raise SoftwareError("uv is not installed: an arm's own packages need it (pip install uv)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        listed = unfinished / "requirements.txt"
        listed.write_text("".join(f"{word}\n" for word in requirements), encoding="utf-8")
        environment = unfinished / "environment"
        _run([uv, "venv", "--quiet", "--relocatable", "--python", sys.executable, str(environment)], place)
        install = [uv, "pip", "install", "--quiet", "--python", str(environment / "bin" / "python")]
        # Compile to bytecode now, because runs of a checkout write no bytecode.
        _run([*install, *options, "--compile-bytecode", "--requirements", str(listed)], place)
        try:
            environment.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another flow has built the environment meanwhile
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return python


def _run(argv: Sequence[str], folder: Path) -> None:
    kept = pass_on(os.environ, (*PASSED_ON, *FOR_UV))  # building a package runs its code: hide other secrets from it
    try:
        done = subprocess.run(
            argv, cwd=folder, env=kept, capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL, timeout=BUILD_TIMEOUT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise SoftwareError(f"uv took longer than {BUILD_TIMEOUT_S:g} s for the packages of {folder}") from error
    if done.returncode:
        tail = "\n".join(done.stderr.strip().splitlines()[-TAIL_LINES:])
        raise SoftwareError(
            f"the packages of {folder} cannot be installed (name each of the versions that go together, for "
            f"example jax==… and flax==…):\n{tail}"
        )


def read_dependencies(project: Path) -> list[Requirement]:
    """Return the dependencies in a pyproject.toml, without members of its own uv workspace, which no index has.

    Raises ConfigError for an invalid file.
    """
    try:
        tables: Mapping[str, Any] = tomllib.loads(project.read_text(encoding="utf-8"))
        sources = tables.get("tool", {}).get("uv", {}).get("sources", {})
        members = {canonicalize_name(name) for name, source in sources.items() if source == {"workspace": True}}
        found = [Requirement(line) for line in tables.get("project", {}).get("dependencies", ())]
        return [item for item in found if canonicalize_name(item.name) not in members]
    except (tomllib.TOMLDecodeError, InvalidRequirement, UnicodeDecodeError) as error:
        raise ConfigError([f"{project}: cannot be read: {error}"]) from error


def unmet_requirements(checkout: Path, versions: Mapping[str, str]) -> list[str]:
    """Return the requirements in the checkout's pyproject.toml that installed versions do not meet, with the versions.

    versions: of the installed packages, by name. Other packages are ignored. Empty without a pyproject.toml.
    """
    project = checkout / "pyproject.toml"
    if not project.is_file():
        return []
    return [
        f"{item} (installed: {versions[item.name]})"
        for item in read_dependencies(project)
        if item.name in versions and not item.specifier.contains(versions[item.name], prereleases=True)
    ]


ANSWER_TIMEOUT_S = 120.0


class Installed(NamedTuple):
    """An interpreter's packages: the version of each by name, and the folders of requested packages by name."""

    versions: dict[str, str]
    folders: dict[str, str]


def ask_python(python: str, packages: Sequence[str] = ()) -> Installed:
    """Return the package versions of the interpreter `python`, and the folders of those `packages` that it has.

    Raises ConfigError if `python` cannot be run, fails, or prints no answer within ANSWER_TIMEOUT_S.
    """
    argv = [python, "-I", installed.__file__, *packages]
    try:  # a package may run code at start-up (.pth files) and print: only the last line is the answer
        done = subprocess.run(
            argv, capture_output=True, text=True, check=True, timeout=ANSWER_TIMEOUT_S, env=pass_on(os.environ)
        )
        return Installed(**json.loads(done.stdout.splitlines()[-1]))
    except OSError as error:
        raise ConfigError([f"{python}: is no Python: it cannot be run ({error.strerror or error})"]) from error
    except subprocess.TimeoutExpired as error:
        raise ConfigError([f"{python}: did not answer within {ANSWER_TIMEOUT_S:.0f} s"]) from error
    except (subprocess.CalledProcessError, ValueError, IndexError, TypeError) as error:
        tail = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1:]
        raise ConfigError([f"{python}: is no Python that can say what it has installed: {''.join(tail)}"]) from error
