"""The two decoder files differ in their API only."""

import ast
from pathlib import Path

import pytest

import model
from model.decoder import stack_linen, stack_nnx

pytestmark = pytest.mark.flows

FILES = [Path(model.__file__).parent / "decoder" / f"decoder_{api}.py" for api in ("linen", "nnx")]
TRAINERS = [Path(model.__file__).parent / "train" / f"trainer_{api}.py" for api in ("linen", "nnx")]


def classes(path: Path) -> list[ast.ClassDef]:
    return [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)]


def method(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == name), None)


def test_same_classes_in_the_same_order_with_the_same_docstrings() -> None:
    linen, nnx = ([(node.name, ast.get_docstring(node)) for node in classes(path)] for path in FILES)
    assert linen == nnx
    assert len(linen) == 13
    assert all(docstring for _, docstring in linen)


@pytest.mark.parametrize("position", range(13))
def test_same_argument_names(position: int) -> None:
    linen, nnx = (classes(path)[position] for path in FILES)
    calls = [method(node, "__call__") for node in (linen, nnx)]
    names = [[argument.arg for argument in call.args.args] for call in calls if call]
    assert len(names) == 2
    assert names[0] == names[1]
    fields = [
        node.target.id for node in linen.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    init = method(nnx, "__init__")
    assert init is not None
    assert fields == [argument.arg for argument in init.args.args[1:]]


def test_both_trainers_have_the_same_methods_with_the_same_docstrings() -> None:
    linen, nnx = (
        [
            (item.name, [argument.arg for argument in item.args.args], ast.get_docstring(item) or "")
            for item in classes(path)[-1].body
            if isinstance(item, ast.FunctionDef) and not item.name.startswith("_")
        ]
        for path in TRAINERS
    )
    assert linen[:-1] == nnx[:-1]
    assert [name for name, _, _ in linen][-1] == "common_names"  # the docstrings name their API
    assert len(linen) == 7


def test_both_have_the_same_layer_loops_with_the_same_names() -> None:
    linen, nnx = (
        [(name, part.__doc__) for name, part in stacks.items()] for stacks in (stack_linen.STACKS, stack_nnx.STACKS)
    )
    assert linen == nnx
    assert all(said for _, said in linen)
