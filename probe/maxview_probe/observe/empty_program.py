"""Empties a lowered program: it keeps its arguments and results, and its results become zeros."""

from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func, stablehlo


def empty(lowered: Any) -> None:
    """Replace the work of a `Lowered` by constants, for a caller who does not need its results: it compiles at once."""
    module = lowered.compiler_ir("stablehlo")
    with module.context, ir.Location.unknown():
        main = next(one for one in module.body.operations if _is_main(one.operation))
        (block,) = main.operation.regions[0].blocks
        types = ir.FunctionType(ir.TypeAttr(main.operation.attributes["function_type"]).value).results
        for held in reversed(list(block.operations)):
            held.operation.erase()
        with ir.InsertionPoint(block):
            func.return_([stablehlo.constant(_zeros(ir.RankedTensorType(kind))) for kind in types])
        for held in list(module.body.operations):
            if held.operation.name == "func.func" and not _is_main(held.operation):
                held.operation.erase()


def _is_main(operation: Any) -> bool:
    return operation.name == "func.func" and ir.StringAttr(operation.attributes["sym_name"]).value == "main"


def _zeros(kind: Any) -> Any:
    element = kind.element_type
    zero = ir.FloatAttr.get(element, 0.0) if isinstance(element, ir.FloatType) else ir.IntegerAttr.get(element, 0)
    return ir.DenseElementsAttr.get_splat(kind, zero)
