"""The command `maxview resolve`, which shows a case's config."""

from typing import TYPE_CHECKING

from flows.cli.commands.common_options import DEFAULT_OUT, Json, Out, Set

if TYPE_CHECKING:
    from tasks.resolve.plans import Request


def resolve_command(
    case: str,
    /,
    *,
    comparison: str = "linen-vs-nnx",
    arm: str | None = None,
    target: str | None = None,
    model: str | None = None,
    set_: Set = None,
    manifest: bool = False,
    out: Out = DEFAULT_OUT,
    json_: Json = False,
) -> int:
    """Show the resolved config of a case with the origin of every value, and the trainer's environment.

    Parameters
    ----------
    case
        A case, for example 03_dropout, or a comparison, which stands for its first case.
    arm
        One arm of the comparison; the first arm by default.
    manifest
        Print what a launch of the arm's first run with this --out would submit instead: a JobSet, a batch script.
    """
    from configs.comparison import load_comparison, load_target
    from configs.names import list_names
    from tasks.publish.terminal.configs import show_config
    from tasks.resolve.arm_config import resolve_config

    if case in list_names("comparisons"):
        comparison, case = case, load_comparison(case).cases[0]
    if manifest:
        from tasks.resolve.plans import Request

        words = tuple(set_ or ())
        request = Request(comparison=comparison, cases=(case,), target=target, model=model, overrides=words, repeats=1)
        _print_manifest(request, arm, out)
        return 0
    spec = load_comparison(comparison)
    place = load_target(target or spec.target)
    resolved = resolve_config(spec, place, case=case, arm=arm or spec.arms[0].name, overrides=set_ or (), model=model)
    show_config(resolved, place, as_json=json_)
    return 0


def _print_manifest(request: "Request", arm: str | None, out: str) -> None:
    """Print the text that the launch of an arm's first run would submit. Raises ConfigError."""
    from configs.errors import ConfigError, suggest
    from tasks.launch.job import write_manifest
    from tasks.resolve.plans import resolve
    from tasks.store.store import describe_store

    store = describe_store(out)
    plans = {plan.arm: plan for plan in resolve(request, store.path)}
    name = arm or next(iter(plans))
    if name not in plans:
        raise ConfigError([f"unknown arm '{name}'{suggest(name, tuple(plans))}; there are: {', '.join(plans)}"])
    print(write_manifest(plans[name], store.run(plans[name].run_name)), end="")
