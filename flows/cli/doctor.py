"""Checks this machine for `maxview doctor`: tools, packages, settings and targets; names commands that fix problems."""

import importlib.metadata
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import httpx
import psutil
from rich.console import Console
from rich.markup import escape

from configs.comparison import load_comparison, load_target
from configs.load import ConfigError
from configs.names import list_names
from tasks.launch.backend import WITHOUT
from tasks.launch.job import find_obstacles
from tasks.publish.content.typed_command import as_typed
from tasks.resolve.trainers.maxtext import find_maxtext
from tasks.resolve.trainers.maxtext_trainer import PYTHON_VARIABLE
from tasks.services.embedded_server import IDLE_S, explain_home, find_embedded
from tasks.store.atomic import StoreError
from tasks.store.store import check_writable

State = Literal["ok", "optional", "missing"]
SIGNS: dict[State, str] = {"ok": "[green]✓[/]", "optional": "[yellow]–[/]", "missing": "[red]✗[/]"}
NEEDED = ("jax", "flax", "optax", "orbax-checkpoint", "prefect", "polars", "google-cloud-storage")
MIN_FREE_GB = 2.0  # of memory, and of the disk with the store


def examine(out: str, target: str | None, *, as_json: bool = False) -> int:
    """Print the checks, one per line or as JSON; return the exit status: 2 if something required is missing, else 0.

    target: the only target to check, which is then required; None: check all targets, which are then optional.
    """
    console = Console(highlight=False, soft_wrap=True)
    worst = 0
    targets = _targets() if target is None else _target(target)
    checks = [*_packages(), *_machine(out), *_prefect(), *_configs(), *targets, *_optional()]
    if as_json:
        print(json.dumps([{"state": state, "text": text} for state, text in checks], indent=1))
        return 2 if any(state == "missing" for state, _ in checks) else 0
    for state, text in checks:
        console.print(f"{SIGNS[state]} {escape(text)}")
        worst = 2 if state == "missing" else worst
    following = as_typed(f"maxview compare linen-vs-nnx{f' --target {target}' if target else ''}")
    console.print(f"\nNext: {following}" if not worst else "\nMend what is marked ✗ first.")
    return worst


def _packages() -> Iterator[tuple[State, str]]:
    yield ("ok" if sys.version_info >= (3, 12) else "missing"), f"Python {sys.version.split()[0]}"
    for package in NEEDED:
        try:
            yield "ok", f"{package} {importlib.metadata.version(package)}"
        except importlib.metadata.PackageNotFoundError:
            yield "missing", f"{package} is not installed: uv sync"


def _machine(out: str) -> Iterator[tuple[State, str]]:
    memory = psutil.virtual_memory().available / 1e9
    enough: State = "ok" if memory > MIN_FREE_GB else "missing"
    yield enough, f"{os.cpu_count()} cores, {memory:.0f} GB of memory free"
    try:
        address, folder = check_writable(out)
    except StoreError as error:
        yield "missing", str(error)
        return
    free = shutil.disk_usage(folder).free / 1e9
    here = f" in {folder}, where runs are worked on" if "://" in address else ""
    yield ("ok" if free > MIN_FREE_GB else "missing"), f"{address}: can be written, {free:.0f} GB free{here}"


def _prefect() -> Iterator[tuple[State, str]]:
    url = os.environ.get("PREFECT_API_URL")
    if not url:
        if denied := explain_home():
            yield "missing", denied
            return
        yield "ok", "Prefect: embedded server (PREFECT_API_URL is not set)"
        yield from dict.fromkeys(_embedded())
        return
    try:
        httpx.get(f"{url.rstrip('/')}/health", timeout=5).raise_for_status()
        yield "ok", f"Prefect: server at {url}"
    except httpx.HTTPError as error:
        yield (
            "missing",
            f"Prefect: no server at {url} ({error}): start it (prefect server start) or unset PREFECT_API_URL",
        )


def _embedded() -> Iterator[tuple[State, str]]:
    for files in find_embedded():
        with files.unused() as unused:
            end = f"is idle, and ends {IDLE_S / 60:g} minutes after its last command"
            now = end if unused else "serves a command"
        yield "ok", f"Prefect: an embedded server in {files.folder} {now} (maxview down ends it)"


def _configs() -> Iterator[tuple[State, str]]:
    try:
        for name in list_names("comparisons"):
            load_comparison(name)
        for name in list_names("targets"):
            load_target(name)
        yield "ok", f"configs: {len(list_names('cases'))} cases, {len(list_names('comparisons'))} comparisons"
    except ConfigError as error:
        yield "missing", str(error)


def _targets() -> Iterator[tuple[State, str]]:
    for name in list_names("targets"):
        try:
            target = load_target(name)
        except ConfigError:  # `_configs` reports it
            continue
        obstacles = list(find_obstacles(target, os.environ))
        for obstacle in obstacles:
            yield "optional", f"target {name}: {obstacle}"
        if not obstacles and not target.trains_here:
            yield "ok", f"target {name}: can be used"


def _target(name: str) -> Iterator[tuple[State, str]]:
    try:
        obstacles = list(find_obstacles(load_target(name), os.environ))
    except ConfigError as error:
        obstacles = [str(error)]
    for obstacle in obstacles:
        yield ("optional" if WITHOUT in obstacle else "missing"), f"target {name}: {obstacle}"
    if not obstacles:
        yield "ok", f"target {name}: can be used"


def _optional() -> Iterator[tuple[State, str]]:
    for module, what, remedy in (
        ("libtpu", "TPU compiler", "uv sync --extra tpu"),
        ("prefect_kubernetes", "Kubernetes worker", "uv sync --extra k8s"),
    ):
        found = importlib.util.find_spec(module) is not None
        yield ("ok" if found else "optional"), f"{what}: {'installed' if found else f'not installed ({remedy})'}"
    yield _maxtext()
    git = shutil.which("git")
    yield ("ok" if git else "optional"), "git: found" if git else "git: not found; commits will not be recorded"


def _maxtext() -> tuple[State, str]:
    named = os.environ.get(PYTHON_VARIABLE)
    if not named:
        return "optional", f"MaxText: {PYTHON_VARIABLE} is not set; comparisons that name a release install it"
    try:
        return "ok", f"{find_maxtext(Path(named)).title}: {named}"
    except ConfigError as error:
        return "optional", f"MaxText: {PYTHON_VARIABLE}: {error}"
