"""Finds the buffers that are live at the peak of a program's device memory, and compares those of two arms.

An arm is one of the two compared versions of a trainer. The offset and size of each buffer are from the compiler's
`BufferAssignmentProto` (XLA's `hlo.proto`). The lifetime of a buffer is computed from the order of the instructions in
the scheduled program.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.empty_pb2 import Empty  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]

from tasks.programs.hlo import Instruction, Program
from tasks.programs.source_lines import Located, OptimisedProgram, name_function
from tasks.records.explanation import CodeLine, LiveBuffer, MemoryExplanation

RECOMPUTED = "recomputed"  # the phase of what a gradient computes again instead of keeping it
MAX_LISTED = 20  # limit of rows of buffers in the record
# Opcodes whose result is the buffer of an operand, and so extends the lifetime of that buffer.
_PASSES = frozenset({"tuple", "get-tuple-element", "bitcast", "optimization-barrier", "while", "call", "conditional"})
# Roles of the computations that an instruction runs, besides a conditional's branches.
_INSIDE = ("condition", "body", "to_apply", "calls")


class Buffer(NamedTuple):
    """A buffer on one device. Buffers at the same offset of an allocation share memory at different times."""

    instruction: str  # name of the instruction that makes the buffer; empty if unknown
    allocation: int  # index of the allocation that contains it
    offset: int  # bytes from the start of the allocation
    size: int  # bytes
    is_argument: bool


class Peak(NamedTuple):
    """The memory that the compiler allocates for a step, and the buffers that are live when most of it is in use."""

    bytes: int  # size of all allocations
    buffers: tuple[Buffer, ...]  # of several at one offset, only the largest


class _Message:
    """The fields of a protocol buffer by number, because no installed package contains XLA's schema."""

    def __init__(self, content: bytes) -> None:
        """Decode a message. Raises ValueError if the bytes are no message."""
        self._fields: dict[int, list[Any]] = defaultdict(list)
        try:
            for field in UnknownFieldSet(Empty.FromString(content)):
                self._fields[field.field_number].append(field.data)
        except DecodeError as error:
            raise ValueError("a protocol buffer is cut off or damaged") from error

    def last[T](self, number: int, default: T) -> T:
        """Return the value of a field, the last if there are several; the default if it is missing."""
        return next(reversed(self._fields[number]), default)

    def messages(self, number: int) -> Iterator["_Message"]:
        """Yield the messages in a repeated field."""
        return map(_Message, self._fields[number])


def read_buffers(assignment: Path, instructions: Path) -> list[Buffer]:
    """Return the buffers of a program from its BUFFERS and INSTRUCTIONS files.

    Constants and thread-local memory are left out. Raises ValueError, OSError.
    """
    computations = _Message(instructions.read_bytes()).messages(3)  # field numbers of HloModuleProto
    names = {one.last(35, 0): one.last(1, b"").decode() for each in computations for one in each.messages(2)}
    message = _Message(assignment.read_bytes())
    makers: dict[int, str] = {}
    for buffer in message.messages(1):  # logical_buffers: id, size, defined_at {instruction_id}
        defined = _Message(buffer.last(3, b""))
        makers[buffer.last(1, 0)] = names.get(defined.last(4, 0)) or defined.last(2, b"").decode()
    found: list[Buffer] = []
    for one in message.messages(3):  # buffer_allocations
        if one.last(3, 0) or one.last(12, 0):  # thread-local memory and constants do not count
            continue
        for part in one.messages(9):  # assigned: logical_buffer_id, offset, size
            maker = makers.get(part.last(1, 0), "")
            found.append(Buffer(maker, one.last(1, 0), part.last(2, 0), part.last(3, 0), bool(one.last(5, 0))))
    return found


def find_peak(program: Program, buffers: Iterable[Buffer]) -> Peak:
    """Return the allocated bytes, and the live buffers at the moment with most bytes in use.

    Arguments live always, and buffers of unknown instructions only at the start. Of several live buffers at one offset,
    only the largest is returned.
    """
    spans, length = _Schedule(program).spans()
    changes: dict[int, list[tuple[bool, Buffer]]] = defaultdict(list)
    listed = list(buffers)
    for buffer in listed:
        begin, end = (0, length) if buffer.is_argument else spans.get(buffer.instruction, (0, 0))
        changes[begin].append((True, buffer))
        changes[end + 1].append((False, buffer))
    held: dict[tuple[int, int], list[Buffer]] = defaultdict(list)  # (allocation, offset) → live buffers there
    now = most = 0
    best: tuple[Buffer, ...] = ()
    for moment in sorted(changes):
        for begins, buffer in sorted(changes[moment], key=lambda change: change[0]):
            place = held[buffer.allocation, buffer.offset]
            before = max((one.size for one in place), default=0)
            if begins:
                place.append(buffer)
            else:
                place.remove(buffer)
            now += max((one.size for one in place), default=0) - before
        if now > most:
            most = now
            best = tuple(max(place, key=lambda one: one.size) for place in held.values() if place)
    return Peak(count_allocated(listed), best)


def count_allocated(buffers: Iterable[Buffer]) -> int:
    """Return the total bytes of the allocations that contain these buffers. Buffers may share an allocation."""
    sizes: dict[int, int] = defaultdict(int)
    for buffer in buffers:
        sizes[buffer.allocation] = max(sizes[buffer.allocation], buffer.offset + buffer.size)
    return sum(sizes.values())


class _Schedule:
    """Numbers a step's instructions in execution order. A loop's body is numbered once."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.begins: dict[str, int] = {}
        self.ends: dict[str, int] = {}
        self.moment = 0
        self.order: list[str] = []
        self.visit(next(one.name for one in program.computations.values() if one.is_entry))

    def visit(self, name: str) -> None:
        """Number the instructions of a computation and of the computations that it runs, except inside fusions."""
        if name in self.order or name not in self.program.computations:
            return
        self.order.append(name)
        for one in self.program.computations[name].instructions.values():
            self.moment += 1
            self.begins[one.name] = self.moment
            if one.opcode != "fusion":
                for inner in (*(one.calls[role] for role in _INSIDE if role in one.calls), *one.branches):
                    self.visit(inner)
            self.ends[one.name] = self.moment

    def spans(self) -> tuple[dict[str, tuple[int, int]], int]:
        """Return instruction → (begin, end) of the lifetime of its result's buffer, and the last moment of the step.

        A lifetime ends at the buffer's last use. Using the result of an opcode in `_PASSES` uses its operands' buffers.
        """
        found: dict[str, tuple[int, int]] = {}
        for name in self.order:
            computation = self.program.computations[name]
            listed: list[Instruction] = list(computation.instructions.values())
            last = self.ends[listed[-1].name] if listed else 0
            until: dict[str, int] = {listed[-1].name: last} if listed else {}
            for one in reversed(listed):
                end = until.get(one.name, self.ends[one.name])
                until[one.name] = end
                for operand in one.operands:
                    reached = max(self.ends[one.name], end if one.opcode in _PASSES else 0)
                    until[operand] = max(until.get(operand, 0), reached)
            for one in listed:
                found[one.name] = self.begins[one.name], until[one.name]
        return found, self.moment


class _Group(NamedTuple):
    bytes: int
    what: str
    line: CodeLine | None


def compare_memory(
    baseline: tuple[OptimisedProgram, list[Buffer]],
    candidate: tuple[OptimisedProgram, list[Buffer]],
    names: tuple[str, str],
    donated: tuple[int, int] = (0, 0),
) -> MemoryExplanation:
    """Compare both arms' peaks, and the buffers live at these peaks: by function, pass and operation.

    The largest differences come first; at most MAX_LISTED rows are kept. donated: bytes of arguments whose memory the
    step may write its results into; what it may not is allocated beside them, whenever the peak is.
    """
    peaks = [find_peak(side[0].program, side[1]) for side in (baseline, candidate)]
    groups = [_group(peak.buffers, side[0].located) for peak, side in zip(peaks, (baseline, candidate), strict=True)]
    rows = [_make_row(groups[0].get(key), groups[1].get(key)) for key in groups[0].keys() | groups[1].keys()]
    if donated[0] != donated[1]:
        beside = max(donated[0] - donated[1], 0), max(donated[1] - donated[0], 0)
        what = f"results beside arguments that {names[int(beside[1] == 0)]} does not donate"
        rows.append(LiveBuffer(what=what, baseline_bytes=beside[1], candidate_bytes=beside[0]))
    rows.sort(
        key=lambda row: (
            -abs(row.candidate_bytes - row.baseline_bytes), -max(row.baseline_bytes, row.candidate_bytes), row.what
        )
    )  # fmt: skip
    again = [any(one.phase == RECOMPUTED for one in side[0].located.values()) for side in (baseline, candidate)]
    if rows and again[0] != again[1]:
        rows[0] = rows[0].replace(what=f"{rows[0].what} ({names[again[1] < again[0]]} recomputes nothing)")
    return MemoryExplanation(
        sentence=_say_memory(peaks, rows, names),
        peak_bytes=(peaks[0].bytes, peaks[1].bytes),
        buffers=tuple(rows[:MAX_LISTED]),
    )


def _group(buffers: Iterable[Buffer], located: Mapping[str, Located]) -> dict[tuple[str, ...], _Group]:
    found: dict[tuple[str, ...], _Group] = {}
    for buffer in buffers:
        at = located.get(buffer.instruction)
        key: tuple[str, ...]
        if buffer.is_argument:
            key, what, line = ("arguments",), "arguments of the step", None
        elif at is None or not at.source.file:
            key, what, line = ("no line",), "the compiler's own", None
        else:
            key, line = (name_function(at.source), at.phase, at.what), at.source
            what = f"{_types(at.instruction)} of {at.what}, {at.phase}"
        before = found.get(key)
        found[key] = _Group(buffer.size + (before.bytes if before else 0), before.what if before else what, line)
    return found


def _types(one: Instruction) -> str:
    """Return the type of the largest array that an instruction makes."""
    largest = max(one.shapes, key=lambda shape: shape.bytes, default=None)
    return f"{largest.dtype}[{','.join(map(str, largest.sizes))}]" if largest else "no array"


def _make_row(left: _Group | None, right: _Group | None) -> LiveBuffer:
    one = right or left
    assert one is not None  # every key is in at least one of the two groups
    return LiveBuffer(
        what=one.what,
        baseline_bytes=left.bytes if left else 0,
        candidate_bytes=right.bytes if right else 0,
        baseline_line=left.line if left else None,
        candidate_line=right.line if right else None,
    )


def _say_memory(peaks: list[Peak], rows: list[LiveBuffer], names: tuple[str, str]) -> str:
    sizes = [f"{peak.bytes / 2**20:,.2f} MiB" for peak in peaks]
    said = f"at its peak a step holds {sizes[0]} in {names[0]} and {sizes[1]} in {names[1]}"
    if not rows or rows[0].baseline_bytes == rows[0].candidate_bytes:
        return said
    row = rows[0]
    line = row.candidate_line or row.baseline_line
    more = (row.candidate_bytes - row.baseline_bytes) / 2**20
    place = f" at {line.place}" if line else ""
    return f"{said}; most of it: {abs(more):,.2f} MiB {'more' if more > 0 else 'less'} for {row.what}{place}"
