"""Prints configs on the terminal: a resolved config with the origins of its values, and the lists of all configs."""

import json
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.comparison import Target, find, list_names, load_comparison, load_target
from configs.kernels import describe_attention
from configs.read import first_comment

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


def show_matrix(*, as_json: bool) -> None:
    """Print comparisons with their questions, cases and models with their first comments, and targets with devices."""
    cases = {name: first_comment(find("cases", name)) for name in list_names("cases")}
    comparisons = {name: load_comparison(name).question for name in list_names("comparisons")}
    targets = {name: load_target(name) for name in list_names("targets")}
    models = {name: first_comment(find("models", name)) for name in list_names("models")}
    if as_json:
        shown = {name: target.model_dump() for name, target in targets.items()}
        print(json.dumps({"cases": cases, "comparisons": comparisons, "targets": shown, "models": models}, indent=1))
        return
    console = Console()
    for title, rows in (
        ("comparisons", comparisons),
        ("cases", cases),
        (
            "targets",
            {name: f"{target.devices} × {target.backend}, model {target.model}" for name, target in targets.items()},
        ),
        ("models", models),
    ):
        table = Table(
            title=title, title_justify="left", title_style="bold", box=None, show_header=False, pad_edge=False
        )
        table.add_column(no_wrap=True)
        table.add_column()
        for name, text in rows.items():
            table.add_row(name, escape(text))
        console.print(table)
        console.print()
    console.print("Next: maxview compare linen-vs-nnx --case 03_dropout", highlight=False)
