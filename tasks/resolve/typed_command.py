"""Makes a comparison of a command that was typed: the clone's main branch against its working tree, in both arms.

`maxview compare -- python train.py --config tiny.yml` needs no file. The comparison is written into the cache, where
its name is found (`configs.names.find`).
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from glob import glob
from pathlib import Path

from configs.comparison import load_target
from configs.custom_trainer import OWN
from configs.environment import PASSED_ON, pass_on
from configs.errors import ConfigError
from configs.names import TYPED, default_cache, list_names
from tasks.resolve.command_options import redirect_outputs
from tasks.resolve.git import GitError, run_git
from tasks.resolve.refs import check_repository
from tasks.store.atomic import write_atomically

CASE = "as-typed"
MAIN_BRANCHES = ("main", "master", "trunk", "develop")
# target → device files of its accelerators; JAX itself would take seconds to be asked
ACCELERATORS = {"gpu": ("/dev/nvidia[0-9]*", "/dev/kfd"), "tpu": ("/dev/accel*", "/dev/vfio/[0-9]*")}
# the caller's settings of a program's libraries; none is a key or a token
SETTINGS = (
    "JAX_*", "XLA_*", "TF_*", "KERAS_BACKEND", "WANDB_MODE", "WANDB_DISABLED", "*_OFFLINE", "TOKENIZERS_PARALLELISM",
)  # fmt: skip
_PLACEHOLDER = re.compile(rf"(\{{(?:{'|'.join((*OWN, 'steps'))})\}})")
_DEVICES = re.compile(r"--xla_force_host_platform_device_count=(\d+)")
_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
NAME_LENGTH = 40


def write_typed(words: Sequence[str], steps: int | None = None, *, baseline: str = "") -> str:
    """Write the comparison of a command, and return its name. Raises ConfigError.

    words: the command as typed in the working folder. steps: a run is ended after so many; None: by its command.
    baseline: a ref in place of the main branch.
    """
    clone, given, python = _read_command(words)
    here = Path.cwd()
    command: dict[str, object] = {"argv": given, "copied": True}
    if here != clone and here.is_relative_to(clone):
        command["within"] = str(here.relative_to(clone))
    if steps is not None and not any("{steps}" in word for word in given):
        command["ended"] = True
    target = _target_here()
    if settings := _settings_of_caller(load_target(target).environment):
        command["environment"] = settings
    arms = [{"name": "baseline", "ref": baseline or _main_branch(clone)}, {"name": "branch", "ref": "."}]
    comparison = {
        "trainer": "command", "command": command, "repository": str(clone), "target": target, "cases": [CASE],
        "repeats": 3, "tolerances": "default", "arms": [arm | ({"python": python} if python else {}) for arm in arms],
        "set": {} if steps is None else {"steps": steps},
    }  # fmt: skip
    question = f"# Does your tree train as {arms[0]['ref']} does? {' '.join(shlex.join(words).split())}"
    text = f"{question}\n{json.dumps(comparison, indent=1)}\n"
    name = _name_of(words, text)
    folder = default_cache() / TYPED
    (folder / "comparisons").mkdir(parents=True, exist_ok=True)
    (folder / "cases").mkdir(exist_ok=True)
    write_atomically(folder / "cases" / f"{CASE}.yml", "# The command as it was typed.\n")
    write_atomically(folder / "comparisons" / f"{name}.yml", text)
    return name


def write_typed_twin(words: Sequence[str], left: str, right: str) -> tuple[Path, str]:
    """Write the twin of a command that must compute one function with the words `left` and `right` behind it.

    Return the twin's file, and the command's Python (empty: it is no Python). Raises ConfigError.
    """
    clone, given, python = _read_command(words)
    if Path.cwd() != clone:
        raise ConfigError([f"{Path.cwd()} is not the clone's root: change to {clone}"])
    # a twin's words have no doubled braces
    plain = [word.replace("{{", "{").replace("}}", "}") for word in given]
    twin = {
        "title": f"{left or 'as typed'} = {right or 'as typed'}", "why": "You typed that both compute one function.",
        "trainers": ["command"], "command": plain, "folder": str(clone), "copied": True,
        "left": shlex.split(left), "right": shlex.split(right),
    }  # fmt: skip
    if settings := _settings_of_caller(("JAX_*", "XLA_*")):  # of the twins' own devices and precision
        twin["environment"] = settings
    text = json.dumps(twin, indent=1) + "\n"
    folder = default_cache() / TYPED / "twins"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{_name_of(words, text)}.yml"
    write_atomically(path, text)
    return path, python


def _read_command(words: Sequence[str]) -> tuple[Path, list[str], str]:
    """Return the clone, the command as a template, and its Python (empty: it is no Python). Raises ConfigError."""
    if not words:
        raise ConfigError(["type the command after `--`, for example: -- python train.py"])
    here = Path.cwd()
    try:
        clone = Path(check_repository(str(here)))
    except ConfigError as error:
        raise ConfigError(
            [f"{here} is no git clone, and the versions to compare are its branches: change to your trainer's clone"]
        ) from error
    given = [_as_template(word, clone) for word in redirect_outputs(words)]
    python = _find_python(words[0], here, clone)
    if python:
        given[0] = "{python}"
    elif shutil.which(words[0]) is None and not (here / words[0]).exists():
        raise ConfigError([f"{words[0]}: there is no such program; type the command as you start it: python train.py"])
    return clone, given, python


def _settings_of_caller(left_out: Iterable[str]) -> dict[str, str]:
    """Return the caller's SETTINGS as templates, without those that match a pattern."""
    kept = pass_on(os.environ, SETTINGS)
    return {
        name: value.replace("{", "{{").replace("}", "}}")
        for name, value in sorted(kept.items())
        if not any(fnmatchcase(name, pattern) for pattern in (*left_out, *PASSED_ON))
    }


def _as_template(word: str, clone: Path) -> str:
    """Return the word with doubled braces but for placeholders, and with the run's own copy in place of the clone."""
    parts = _PLACEHOLDER.split(word)
    text = "".join(part if at % 2 else part.replace("{", "{{").replace("}", "}}") for at, part in enumerate(parts))
    return re.sub(rf"(?<![\w./-]){re.escape(str(clone))}(?=/|$)", "{checkout}", text)


def _find_python(word: str, here: Path, clone: Path) -> str:
    """Return the Python of a command that begins with `python`: the project's .venv, else that of the shell.

    The shell's Python may be maxview's own, which is then the answer only if no other is on the PATH.
    """
    if not _PYTHON.fullmatch(word):
        return ""
    for place in (here, clone):
        if (own := place / ".venv" / "bin" / "python").exists():
            return str(own)
    mine = Path(sys.executable).parent
    others = os.pathsep.join(
        place for place in os.environ.get("PATH", "").split(os.pathsep) if place and Path(place) != mine
    )
    active = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX")
    if active and Path(active) / "bin" != mine:
        others = os.pathsep.join((str(Path(active) / "bin"), others))
    found = shutil.which(word, path=others)
    return found if found and _has_jax(found) else sys.executable


def _has_jax(python: str) -> bool:
    from tasks.resolve.python_environments import ask_python

    try:
        return "jax" in ask_python(python).versions
    except ConfigError:
        return False


def _target_here() -> str:
    """Return the target of this machine: its accelerators if it has some, else as many simulated devices as the shell.

    One, without a target of this many.
    """
    devices = _DEVICES.search(os.environ.get("XLA_FLAGS", ""))
    simulated = f"cpu-{devices[1]}" if devices else "cpu"
    cpu = simulated if simulated in list_names("targets") else "cpu"
    return next((name for name, patterns in ACCELERATORS.items() if any(map(glob, patterns))), cpu)


def _main_branch(clone: Path) -> str:
    """Return the clone's main branch: one of MAIN_BRANCHES, else the remote's default branch. Raises ConfigError."""
    for name in MAIN_BRANCHES:
        if _has_ref(clone, f"refs/heads/{name}") or _has_ref(clone, f"refs/remotes/origin/{name}"):
            return name
    try:
        return run_git(["symbolic-ref", "--short", "refs/remotes/origin/HEAD"], folder=clone).partition("/")[2]
    except GitError as error:
        raise ConfigError([f"{clone}: has no branch {' or '.join(MAIN_BRANCHES)}: name one with --baseline"]) from error


def _has_ref(clone: Path, name: str) -> bool:
    try:
        run_git(["rev-parse", "--verify", "--quiet", name], folder=clone)
    except GitError:
        return False
    return True


def _name_of(words: Sequence[str], text: str) -> str:
    """Return the comparison's name: the script's, and a digest of its file."""
    script = next((word for word in words[1:] if word.endswith(".py")), next(iter(words[1:]), words[0]))
    stem = _UNFIT.sub("-", Path(script).stem).strip("-.")[:NAME_LENGTH] or "command"
    return f"{stem}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
