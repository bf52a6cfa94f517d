"""Reads the text of an optimised HLO program: the trainer's source line and the pass of each instruction."""

import gzip
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tasks.causes.source_lines import Frame, find_source_line
from tasks.preflight.analyse import locate
from tasks.preflight.hlo import Instruction, Program, read_program
from tasks.records import CodeLine

_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_ENTRY = re.compile(r"^(\d+) (.*)$")
_NUMBER = re.compile(r"(\w+)=(\d+)")
_FRAME = re.compile(r"stack_frame_id=(\d+)")
_SOURCE = re.compile(r'source_file="([^"]*)"(?: source_line=(\d+))?')


class Located(NamedTuple):
    """An instruction with its operation, its source line and its pass."""

    instruction: Instruction
    what: str  # JAX's name of the operation, "dot_general"; the HLO opcode if it has none
    source: CodeLine
    phase: str  # the pass: "forward", "backward", "recomputed" or "update"


class OptimisedProgram(NamedTuple):
    """An optimised program with source lines."""

    program: Program
    located: Mapping[str, Located]  # instruction's name, unique in the program → instruction


def read_optimised(path: Path, root: str = "") -> OptimisedProgram:
    """Return the program in a text file, gzipped or not. Raises ValueError for other contents. root: arm's folder."""
    packed = path.read_bytes()
    text = (gzip.decompress(packed) if packed[:2] == b"\x1f\x8b" else packed).decode()
    lines = text.splitlines(keepends=True)
    program, frames = read_program(lines), _Frames(lines)
    found: dict[str, Located] = {}
    for computation in program.computations.values():
        for one in computation.instructions.values():
            found[one.name] = _locate(one, frames, root)
    for computation in program.computations.values():
        for one in computation.instructions.values():
            if not found[one.name].source.file:  # made by the compiler: use the line of a fused one or an operand
                found[one.name] = _borrow(one, program, found)
    return OptimisedProgram(program, found)


class _Frames:
    """The tables of source locations that newer compilers write into the text."""

    def __init__(self, lines: Iterable[str]) -> None:
        tables: dict[str, dict[str, str]] = {name: {} for name in _TABLES}
        here: dict[str, str] | None = None
        for line in lines:
            text = line.rstrip("\n")
            if text in tables:
                here = tables[text]
            elif here is not None and (found := _ENTRY.match(text)):
                here[found[1]] = found[2]
            else:
                here = None
        self.tables = tables

    def follow(self, number: str) -> list[Frame]:
        """Return the stack frames with this id, the innermost first."""
        found: list[Frame] = []
        seen: set[str] = set()
        while number and number not in seen:
            seen.add(number)
            frame = dict(_NUMBER.findall(self.tables["StackFrames"].get(number, "")))
            place = dict(_NUMBER.findall(self.tables["FileLocations"].get(frame.get("file_location_id", ""), "")))
            if place:
                function = self.tables["FunctionNames"].get(place.get("function_name_id", ""), "").strip('"')
                file = self.tables["FileNames"].get(place.get("file_name_id", ""), "").strip('"')
                found.append((function, file, int(place.get("line", 0))))
            number = frame.get("parent_frame_id", "")
        return found


def _locate(one: Instruction, frames: _Frames, root: str) -> Located:
    listed: list[Frame] = []
    if found := _FRAME.search(one.attributes):
        listed = frames.follow(found[1])
    elif found := _SOURCE.search(one.attributes):
        listed = [("", found[1], int(found[2] or 0))]
    what = one.op_name.rpartition("/")[2] if "/" in one.op_name else one.opcode
    return Located(one, what, find_source_line(listed, root), locate(one.op_name)[0])


def _borrow(one: Instruction, program: Program, found: Mapping[str, Located]) -> Located:
    inner = program.computations.get(one.calls.get("calls", ""))
    names = [*(reversed(inner.instructions) if inner else ()), *one.operands]
    other = next((found[name] for name in names if name in found and found[name].source.file), None)
    here = found[one.name]
    return here if other is None else here._replace(source=other.source, phase=other.phase)
