"""Prints a resolved config on the terminal, with the origins of its values."""

import json
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.comparison import Target
from configs.kernels import describe_attention

if TYPE_CHECKING:
    from tasks.resolve.arm_config import ResolvedConfig


def show_config(resolved: "ResolvedConfig", target: Target, *, as_json: bool) -> None:
    """Print every config key with value and origin, the attention kernel, and the trainer's environment on `target`."""
    values = resolved.config.model_dump()
    if as_json:
        shown: dict[str, Any] = {k: {"value": v, "origin": resolved.values[k].origin} for k, v in values.items()}
        shown["attention"]["chosen"] = describe_attention(resolved.config)
        shown["environment"] = {"set": target.environment, "passed_on": target.passed_on}
        print(json.dumps(shown, indent=1))
        return
    table = Table(box=None, pad_edge=False)
    for column in ("key", "value", "set in"):
        table.add_column(column, overflow="fold")
    for key, value in values.items():
        origin = resolved.values[key]
        style = "" if origin.layer == "base" else "bold"
        table.add_row(key, escape(json.dumps(value)), origin.origin, style=style)
    console = Console()
    console.print(table)
    console.print(f"\nAttention is computed by {describe_attention(resolved.config)}", highlight=False)
    beside = "and nothing else:" if target.trains_here else "beside what its image and cluster set:"
    console.print(f"\nThe trainer's environment on {target.name}, {beside}", highlight=False)
    for name, value in target.environment.items():
        console.print(f"  {name}={value}", highlight=False, markup=False, soft_wrap=True)
    if target.passed_on:
        console.print(f"  as it is here: {' '.join(target.passed_on)}", highlight=False, markup=False, soft_wrap=True)
