"""Turns the texts of StableHLO programs into JSON: their functions, operations, types, attributes and source lines.

    python -m model.compile.stablehlo PROGRAM.mlir[.gz]…

prints one line of JSON for each. The programs may come from an older JAX.
"""

import gzip
import hashlib
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jax.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir

from model.compile_record import sha256, strip_stablehlo

VERSION = 1
MAX_ATTRIBUTE_LENGTH = 160  # characters; longer ones are values of constants, and are shortened to a digest
UNUSED = frozenset({"sdy.sharding", "sdy.sharding_per_value", "mhlo.sharding", "mhlo.frontend_attributes"})
CALLEE = "callee"
GZIP = b"\x1f\x8b"
# `"name"("file":line:column …)`: a frame. A name alone is the operation's name stack
_FRAME = re.compile(r'"((?:[^"\\]|\\.)*)"\("((?:[^"\\]|\\.)*)":(\d+):')
_NAME = re.compile(r'loc\("((?:[^"\\]|\\.)*)"')


class Transcript:
    """The parts of one program; every value has a number that is unique in the program."""

    def __init__(self, module: Any) -> None:
        self.numbers: dict[Any, int] = {}
        self.places: dict[str, int] = {}
        self.located: list[dict[str, Any]] = []
        self.functions: dict[str, Any] = {}
        self.meshes: list[str] = []
        for held in module.body.operations:
            operation = held.operation
            if operation.name == "func.func":
                name = ir.StringAttr(operation.attributes["sym_name"]).value
                self.functions[name] = self.function(operation)
            elif operation.name == "sdy.mesh":
                self.meshes.append(str(operation))

    def function(self, operation: Any) -> dict[str, Any]:
        """Return a function with its arguments' names, types and attributes."""
        block = operation.regions[0].blocks[0]
        argument_attributes = _attribute_list(operation, "arg_attrs", len(block.arguments))
        result_attributes = _attribute_list(operation, "res_attrs", 0)
        arguments = [
            {
                "value": self.number(argument),
                "name": found[1] if (found := _NAME.match(str(argument.location))) else "",
                "type": str(argument.type),
                "attributes": attributes,
            }
            for argument, attributes in zip(block.arguments, argument_attributes, strict=True)
        ]
        return {"arguments": arguments, "results": result_attributes, "operations": self.block(block)}

    def block(self, block: Any) -> list[dict[str, Any]]:
        """Return the operations of a block; the last one returns."""
        return [self.operation(held.operation) for held in block.operations]

    def operation(self, operation: Any) -> dict[str, Any]:
        """Return one operation with its operands, results, types, attributes and regions."""
        written: dict[str, Any] = {
            "name": operation.name,
            "operands": [self.number(value) for value in operation.operands],
            "results": [self.number(value) for value in operation.results],
            "reads": [str(value.type) for value in operation.operands],
            "makes": [str(value.type) for value in operation.results],
            "attributes": _attributes(operation),
            "place": self.place(str(operation.location)),
        }
        if operation.name == "func.call":
            written[CALLEE] = ir.FlatSymbolRefAttr(operation.attributes[CALLEE]).value
        if len(operation.regions):
            written["regions"] = [
                {
                    "arguments": [self.number(value) for value in region.blocks[0].arguments],
                    "operations": self.block(region.blocks[0]),
                }
                for region in operation.regions
                if len(region.blocks)
            ]
        return written

    def number(self, value: Any) -> int:
        """Return the number of a value."""
        return self.numbers.setdefault(value, len(self.numbers))

    def place(self, location: str) -> int:
        """Return the number of a place: its name stack, and the frames of the trainer's source, innermost first."""
        if location not in self.places:
            self.places[location] = len(self.located)
            found = _NAME.match(location)
            frames = [[function, file, int(line)] for function, file, line in _FRAME.findall(location)]
            self.located.append({"stack": found[1] if found else "", "frames": frames})
        return self.places[location]


def _attributes(operation: Any) -> dict[str, str]:
    names = (
        one if isinstance(one, str) else one.name for one in operation.attributes
    )  # str or NamedAttribute, by the version of jaxlib
    return {name: _shorten(str(operation.attributes[name])) for name in sorted(names) if name not in UNUSED}


def _attribute_list(operation: Any, name: str, count: int) -> list[dict[str, str]]:
    """Return the attributes of each argument or result of a function."""
    if name not in _attributes(operation):
        return [{}] * count
    return [_dictionary(one) for one in operation.attributes[name]]


def _dictionary(attribute: Any) -> dict[str, str]:
    held: Any = ir.DictAttr(attribute)
    return {one.name: str(one.attr) for one in held}


def _shorten(text: str) -> str:
    if len(text) <= MAX_ATTRIBUTE_LENGTH:
        return text
    return f"{text[:MAX_ATTRIBUTE_LENGTH]}… sha256 {hashlib.sha256(text.encode()).hexdigest()}"


def transcribe(text: str) -> dict[str, Any]:
    """Return the program in a text. Raises ValueError if this JAX cannot parse it."""
    with make_ir_context() as context:
        context.allow_unregistered_dialects = True
        try:
            module = ir.Module.parse(text)
        except ir.MLIRError as error:
            raise ValueError(str(error).partition("\n")[0]) from error
        held = Transcript(module)
        bare = module.operation.get_asm(enable_debug_info=False)
    return {
        "version": VERSION,
        "text_sha256": sha256(strip_stablehlo(str(bare))),
        "functions": held.functions,
        "places": held.located,
        "meshes": held.meshes,
    }


def main(argv: Sequence[str]) -> int:
    """The command line: 0 printed, 2 a file cannot be parsed as a program."""
    for name in argv:
        packed = Path(name).read_bytes()
        text = (gzip.decompress(packed) if packed[:2] == GZIP else packed).decode()
        try:
            sys.stdout.write(json.dumps(transcribe(text)) + "\n")
        except ValueError as error:
            sys.stderr.write(f"{name}: {error}\n")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
