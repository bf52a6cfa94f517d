"""Turns StableHLO programs from text into JSON: functions, operations, types, attributes and source lines.

    python -m model.compile.stablehlo PROGRAM.mlir[.gz]…

prints one line of JSON per program. An older JAX may have written the programs.
"""

import gzip
import hashlib
import json
import re
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jax.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir

from model.compile_record import sha256, strip_kernels, strip_stablehlo

VERSION = 1
MAX_ATTRIBUTE_LENGTH = 160  # characters; longer attributes (values of constants) end with a digest instead
# attributes of operations that are left out
UNUSED = frozenset({"sdy.sharding", "sdy.sharding_per_value", "mhlo.sharding", "mhlo.frontend_attributes"})
CALLEE = "callee"
GZIP = b"\x1f\x8b"
# in a location, `"function"("file":line:column …)` is a stack frame, and a name alone is the operation's name stack
_FRAME = re.compile(r'"((?:[^"\\]|\\.)*)"\("((?:[^"\\]|\\.)*)":(\d+):')
_NAME = re.compile(r'loc\("((?:[^"\\]|\\.)*)"')


class Transcript:
    """One program as JSON: functions by name, meshes, source places (`located`). Every value has a unique number."""

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
        """Return a function: its arguments, the attributes of its results, and its operations."""
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
        """Return the operations of a block."""
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
        """Return the number of a value; a new value gets the next number."""
        return self.numbers.setdefault(value, len(self.numbers))

    def place(self, location: str) -> int:
        """Return the index in `located` of a location: its name stack, and its stack frames, innermost first."""
        if location not in self.places:
            self.places[location] = len(self.located)
            found = _NAME.match(location)
            frames = [[function, file, int(line)] for function, file, line in _FRAME.findall(location)]
            self.located.append({"stack": found[1] if found else "", "frames": frames})
        return self.places[location]


def _attributes(operation: Any) -> dict[str, str]:
    names = (
        one if isinstance(one, str) else one.name for one in operation.attributes
    )  # str or NamedAttribute, depending on the version of jaxlib
    return {
        name: _shorten(strip_kernels(str(operation.attributes[name]))) for name in sorted(names) if name not in UNUSED
    }


def _attribute_list(operation: Any, name: str, count: int) -> list[dict[str, str]]:
    """Return the attributes of each argument or result of a function; `count` empty dicts if the function has none."""
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
    """Return the program as JSON. Raises ValueError if this JAX cannot parse the text."""
    with make_ir_context() as context:
        context.allow_unregistered_dialects = True
        try:
            module = ir.Module.parse(text)
        except ir.MLIRError as error:
            raise ValueError("this JAX cannot parse it as a program") from error
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
    """Run the command line. Exit status: 0 printed, 2 a file cannot be read, or is no program."""
    for name in argv:
        try:
            packed = Path(name).read_bytes()
            text = (gzip.decompress(packed) if packed[:2] == GZIP else packed).decode()
            sys.stdout.write(json.dumps(transcribe(text)) + "\n")
        except (OSError, EOFError, ValueError, zlib.error) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            sys.stderr.write(f"{name}: {why}\n")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
