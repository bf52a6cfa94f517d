"""Writes the comparison of a watched command into the clone, and returns the lines that tell what was seen."""

import re
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from configs.comparison import Arm
from configs.custom_trainer import CommandTemplate
from configs.errors import ConfigError
from configs.names import PROJECT
from questions.init.typed_words import find_keys, value_of
from questions.init.watch_command import ORBAX, Watched
from tasks.records.observation import Role
from tasks.records.text import counted
from tasks.resolve.plans import Request, resolve
from tasks.store.atomic import write_atomically
from tasks.store.names import safe_name

CASE = "as-typed"
WIDTH = 110  # columns of the file
ROLES: dict[Role, str] = {
    "parameter": "weights", "optimizer": "arrays of the optimizer", "counter": "counters",
    "random numbers": "random keys",
}  # fmt: skip

OTHER = "other arrays"


def check_free(words: Sequence[str]) -> None:
    """Raise ConfigError if the comparison of a command is there already."""
    path = _project() / "comparisons" / f"{name_of(words)}.yml"
    if path.exists():
        raise ConfigError(
            [f"{path} is there already: edit it, or remove it first; to run it: maxview compare {path.stem}"]
        )


def name_of(words: Sequence[str]) -> str:
    """Return the comparison's name: the script's, or the module's."""
    script = next((word for word in words[1:] if word.endswith(".py")), None)
    module = next((after for word, after in pairwise(words) if word == "-m"), None)
    return safe_name(Path(script).stem if script else (module or Path(words[0]).name).rpartition(".")[2])


def _project() -> Path:
    """Return the folder for the files: in the clone's root, from which all its subfolders find it."""
    here = Path.cwd()
    return next((place for place in (here, *here.parents) if (place / ".git").exists()), here) / PROJECT


def write_project(watched: Watched) -> list[str]:
    """Write the files, check them by planning the comparison's runs, and return the lines. Raises ConfigError."""
    template = watched.comparison.command
    assert template is not None  # a typed comparison has one
    name = name_of(template.argv)
    project = _project()
    path, case = project / "comparisons" / f"{name}.yml", project / "cases" / f"{CASE}.yml"
    for folder in (path.parent, case.parent):
        folder.mkdir(parents=True, exist_ok=True)
    if not case.exists():
        write_atomically(case, "# The command as it was typed.\n")
    keys = find_keys(template.argv)
    for chosen in ({key: value_of(option) for key, option in keys.items()}, {}):
        write_atomically(path, _text(watched, template, chosen))
        try:
            resolve(Request(comparison=name), Path("maxview-out"))
            break
        except ConfigError:
            if not chosen:
                path.unlink()
                raise
    return [*describe(watched, chosen), f"wrote   {_shown(path)}, {_shown(case)}", *_next(name, chosen)]


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _text(watched: Watched, template: CommandTemplate, keys: dict[str, object]) -> str:
    """Return the comparison's file. keys: config keys whose values become placeholders."""
    argv = list(template.argv)
    for key, option in find_keys(argv).items():
        if key in keys:
            argv[option.at] = f"{option.before}{{{key}}}"
    command: dict[str, Any] = {"argv": argv, "copied": True}
    if template.within:
        command["within"] = template.within
    if template.environment:
        command["environment"] = dict(template.environment)
    settings = dict(keys)
    if watched.ended and "steps" not in keys:
        command["ended"], settings["steps"] = True, watched.steps
    orbax = [one.folder for one in watched.saves if one.format == ORBAX]
    if len(orbax) == 1:
        command["checkpoints"] = orbax[0]
    if watched.metrics:
        command["metrics"] = watched.metrics
    spec = watched.comparison
    arms = [{"name": arm.name, "ref": arm.ref, **_python_of(arm)} for arm in spec.arms]
    content: dict[str, Any] = {
        "trainer": "command", "command": command, "target": spec.target, "cases": [CASE], "repeats": spec.repeats,
        "tolerances": spec.tolerances, "arms": arms, "set": settings,
    }  # fmt: skip
    yaml = YAML()
    yaml.default_flow_style = None  # lists and maps without inner ones in one line
    yaml.width = WIDTH
    out = StringIO()
    yaml.dump(content, out)
    head = f"# {spec.question.partition('?')[0]}?\n#\n"
    return head + "".join(f"# {line}\n" for line in describe(watched, keys)) + out.getvalue()


def _python_of(arm: Arm) -> dict[str, str]:
    """Return the entry for an arm's Python, from the clone's root if it is inside; none for maxview's own."""
    if not arm.python or arm.python == sys.executable:
        return {}
    path, clone = Path(arm.python), _project().parent
    return {"python": str(path.relative_to(clone)) if path.is_relative_to(clone) else arm.python}


def describe(watched: Watched, keys: dict[str, object]) -> list[str]:
    """Return what was seen, a line each."""
    end = f"ended after {watched.steps} calls of its step" if watched.ended else "it ended by itself"
    if (code := watched.exit_code) not in (0, None):
        end += f", with exit code {code}"
    step = watched.observation
    cycle = step.cycle
    functions = cycle.sentence if cycle is not None and not cycle.problem else f"evaluated: `{step.step}`"
    roles = Counter(ROLES.get(array.role, OTHER) for array in watched.run.states[-1].arrays if array.fed)
    state = ", ".join(f"{number} {text}" for text, number in roles.items())
    writers = step.loop.writers if step.loop is not None else {}
    if not state:  # the step that is watched makes gradients
        state = ", ".join(f"`{name}`: {counted(number, 'array')}" for name, number in writers.items())
    lines = [
        f"ran     {watched.seconds:.0f} s on {step.platform}, twice at once; {end}",
        f"step    {functions.removeprefix('evaluated: ')}",
        f"writes  {state or 'nothing that its next call is given'}",
        f"log     {_tell_log(watched)}",
        f"saves   {_tell_saves(watched)}",
        f"keys    {_tell_keys(keys)}",
        f"python  {_tell_python(watched)}",
    ]
    return [re.sub(r"\s+$", "", line) for line in lines]


def _tell_log(watched: Watched) -> str:
    metrics = f"; {watched.metrics} in full precision" if watched.metrics else ""
    if watched.log is not None:
        return f"{watched.log.steps.height} rows of {watched.log.format}{metrics}"
    scalars = [one.name for one in watched.observation.results if not one.shape and one.role == "other state"]
    what = "its time and the scalars that the step returns" if scalars else "its time"
    return f"no row that maxview reads: each call of the step is one, with {what}{metrics}"


def _tell_saves(watched: Watched) -> str:
    if not watched.saves:
        longer = "; --steps N watches longer" if watched.ended else ""
        return f"no checkpoint in a format that maxview knows{longer}"
    told = []
    for one in watched.saves:
        proof = {ORBAX: "proved by `compare`", "safetensors": "proved by `maxview verify`"}.get(
            one.format, "not proved"
        )
        told.append(f"{one.folder}: {one.format}, {counted(one.number, 'checkpoint')}, {proof}")
    return "; ".join(told)


def _tell_keys(keys: dict[str, object]) -> str:
    if not keys:
        return "none in the command; a word {learning_rate} makes one"
    return ", ".join(f"{key}: {value}" for key, value in keys.items()) + " (a case may change them)"


def _tell_python(watched: Watched) -> str:
    named = _python_of(watched.comparison.arms[-1]).get("python")
    own = "maxview's own" if watched.comparison.arms[-1].python else "the command's own"
    versions = watched.observation.software
    jax = f"JAX {versions['jax']}" if "jax" in versions else "its JAX is unknown"
    return f"{named or own}: {jax}"


def _next(name: str, keys: dict[str, object]) -> list[str]:
    lines = [f"next    maxview compare {shlex.quote(name)} --only function"]
    if "learning_rate" in keys:
        lines.append(f"        maxview compare {shlex.quote(name)} --set learning_rate=…")
    return lines
