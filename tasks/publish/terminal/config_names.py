"""Prints the lists of all comparisons, cases, targets and models on the terminal.

For a list, the files are not validated, because their models take longer to import than all else: a file without a
value that the list shows is loaded, which reports what is wrong with it.
"""

import json
import shutil
import textwrap

from configs.names import Kind, find, list_names
from configs.read import first_comment, read_yaml

COMMENTED: tuple[Kind, ...] = ("comparisons", "cases", "models")  # their files begin with a comment
INDENT = 2  # columns between a name and its text


def show_names(*, as_json: bool) -> None:
    """Print comparisons, cases and models with their first comments, and targets with devices."""
    lists = {kind: {name: first_comment(find(kind, name)) for name in list_names(kind)} for kind in COMMENTED}
    if as_json:
        from configs.comparison import load_target

        targets = {name: load_target(name).model_dump() for name in list_names("targets")}
        print(json.dumps({**lists, "targets": targets}, indent=1))
        return
    lists["targets"] = {name: describe_target(name) for name in list_names("targets")}
    for kind in ("comparisons", "cases", "targets", "models"):
        print(kind)
        width, columns = max(map(len, lists[kind])) + INDENT, shutil.get_terminal_size().columns
        for name, text in lists[kind].items():
            print(textwrap.fill(f"{name:{width}}{text}", columns, subsequent_indent=" " * width))
        print()
    print("Next: maxview compare linen-vs-nnx --case 03_dropout")


def describe_target(name: str) -> str:
    """Return a target's devices, backend and model."""
    data = read_yaml(find("targets", name))
    try:
        return f"{data['devices']} × {data['backend']}, model {data['model']}"
    except KeyError:
        from configs.comparison import load_target

        target = load_target(name)
        return f"{target.devices} × {target.backend}, model {target.model}"
