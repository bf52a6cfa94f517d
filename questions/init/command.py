"""The command `maxview init`: writes the comparison of a typed command into the clone."""

from rich.console import Console

from configs.names import typed_names
from flows.cli.app import take_steps
from questions.init import QUESTION

STEPS = 20  # calls of the step that are watched, by default


def init(*command: str, steps: int = STEPS) -> int:
    """Watch a short run of the command after `--`, and write `.maxview/comparisons/NAME.yml` into the clone.

    The command runs twice in copies of the working tree, each time for up to 20 calls of its step. An existing file is
    not overwritten.

    Parameters
    ----------
    command
        The command, after `--`.
    steps
        Calls of the step after which a watched run is ended.
    """
    name = command[0] if len(command) == 1 else ""
    if name not in typed_names():
        raise ValueError(f"type the command after --; for example: maxview init {QUESTION.examples[0]}")
    from questions.init.project_file import write_project
    from questions.init.watch_command import watch

    errors = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for line in write_project(watch(name, steps, errors.print)):
        console.print(line)
    return 0


def read_typed(typed: list[str], options: list[str]) -> list[str]:
    """Return the words of the command for a typed command, whose comparison is written into the cache."""
    from questions.init.project_file import check_free
    from tasks.resolve.typed_command import write_typed

    check_free(typed)
    limit = take_steps(options) or STEPS
    return ["init", write_typed(typed), "--steps", str(limit), *options]
