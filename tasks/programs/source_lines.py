"""Finds the trainer's source line of an operation from stack frames, and of every instruction of optimised HLO."""

import gzip
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from maxview_probe.observe.places import LIBRARIES
from tasks.programs.hlo import Instruction, Program, read_program
from tasks.programs.program_work import locate
from tasks.records.explanation import CodeLine

# Folders of installed packages, and checkouts of commits.
_PACKAGES = re.compile(r".*/(?:site|dist)-packages/|.*/checkouts/[0-9a-f]{40,64}/")

type Frame = tuple[str, str, int]  # function, file, line


def find_source_line(frames: Iterable[Frame], root: str = "") -> CodeLine:
    """Return the innermost frame of the trainer, else of a library; an empty line without frames.

    frames: innermost first. root: the arm's folder.
    """
    listed = list(frames)
    own = next((frame for frame in listed if not is_library(frame[1])), listed[0] if listed else None)
    if own is None:
        return CodeLine()
    function, path, line = own
    return CodeLine(file=shorten_path(path, root), line=line, function=function, path=path)


def name_function(source: CodeLine) -> str:
    """Return a name for the function around a source line: class and method, else file and function.

    A name with a function stays equal if lines move. If the function is unknown, the line's number takes its place.
    Empty for libraries.
    """
    if is_library(source.path):  # Linen and NNX call different library functions for equal work
        return ""
    if "." in source.function:
        return source.function
    return f"{source.file.rpartition('/')[2]} {source.function or source.line}"


def is_library(path: str) -> bool:
    """Return whether a file belongs to JAX, to a package around it, or to Python itself."""
    return LIBRARIES.search(path) is not None


def shorten_path(path: str, root: str = "") -> str:
    """Return a path relative to site-packages, to a commit's checkout or to the arm's folder; else unchanged."""
    below = _PACKAGES.sub("", path)
    if below == path and root and path.startswith(root.rstrip("/") + "/"):
        return path[len(root.rstrip("/")) + 1 :]
    return below


_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_ENTRY = re.compile(r"^(\d+) (.*)$")
_NUMBER = re.compile(r"(\w+)=(\d+)")
_FRAME = re.compile(r"stack_frame_id=(\d+)")
_SOURCE = re.compile(r'source_file="([^"]*)"(?: source_line=(\d+))?')


class Located(NamedTuple):
    """An HLO instruction with its operation, its source line and its pass."""

    instruction: Instruction
    what: str  # JAX's name of the operation, "dot_general"; the HLO opcode if it has none
    source: CodeLine
    phase: str  # the pass: "forward", "backward", "recomputed" or "update"


class OptimisedProgram(NamedTuple):
    """An optimised program with source lines."""

    program: Program
    located: Mapping[str, Located]  # instruction's name, unique in the program → instruction


def read_optimised(path: Path, root: str = "") -> OptimisedProgram:
    """Return the program in a text file, gzipped or not. Raises ValueError for other files. root: the arm's folder."""
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
            if not found[one.name].source.file:  # the compiler made it: use a fused instruction's or an operand's line
                found[one.name] = _borrow(one, program, found)
    return OptimisedProgram(program, found)


class _Frames:
    """The tables of source locations that newer compilers write into the text of a program."""

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
        """Return the stack frames from this id outwards, the innermost first."""
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
