"""Finds the obstacles to runs on a target, each with the command that removes it."""

from collections.abc import Iterator, Mapping

from configs.comparison import Target
from configs.errors import ConfigError
from tasks.launch.job import launcher_of


def find_obstacles(target: Target, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the obstacles to a run on the target, each with its remedy; connects to the target's cluster."""
    try:
        settings = target.launch_settings(environ)
    except ConfigError as error:
        yield from error.problems
        return
    yield from launcher_of(target.backend).find_obstacles(settings)
