"""The commands `maxview resolve`, which shows a case's config, and `maxview cases`, which lists names of configs."""

from flows.cli.commands.common_options import Json, Set


def resolve_command(
    case: str,
    /,
    *,
    comparison: str = "linen-vs-nnx",
    arm: str | None = None,
    target: str | None = None,
    model: str | None = None,
    set_: Set = None,
    json_: Json = False,
) -> int:
    """Show the resolved config of a case with the origin of every value, and the trainer's environment.

    Parameters
    ----------
    case
        A case, for example 03_dropout.
    arm
        One arm of the comparison; the first arm by default.
    """
    from configs.comparison import load_comparison, load_target
    from tasks.publish.terminal.configs import show_config
    from tasks.resolve.arm_config import resolve_config

    spec = load_comparison(comparison)
    place = load_target(target or spec.target)
    resolved = resolve_config(spec, place, case=case, arm=arm or spec.arms[0].name, overrides=set_ or (), model=model)
    show_config(resolved, place, as_json=json_)
    return 0


def cases(*, json_: Json = False) -> int:
    """List the cases, targets, models and comparisons in configs/."""
    from tasks.publish.terminal.configs import show_matrix

    show_matrix(as_json=json_)
    return 0
