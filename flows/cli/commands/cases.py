"""The command `maxview cases`, which lists the names of configs."""

from flows.cli.commands.json_option import Json


def cases(*, json_: Json = False) -> int:
    """List the cases, targets, models and comparisons in configs/."""
    from tasks.publish.terminal.config_names import show_names

    show_names(as_json=json_)
    return 0
