"""Counts the work of one training step in the text of an optimised HLO program: cycles, FLOPs, bytes in collectives."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import NamedTuple

from tasks.programs.hlo import Computation, Instruction, Program, Shape, read_program
from tasks.programs.loops import Runs, count_runs
from tasks.records.compiled import OPTIMISED, CollectiveSum, ProgramWork, Work
from tasks.records.shared_fields import Source

COLLECTIVES = (
    "all-gather", "all-reduce", "reduce-scatter", "all-to-all", "ragged-all-to-all", "collective-permute",
    "collective-broadcast",
)  # fmt: skip
FIRST_LINE = Source(line=1, offset=0, file=OPTIMISED)
KERNEL = "tpu_custom_call"  # target of a custom kernel's call
_SCATTER = "all-reduce-scatter"  # the compiler's name for an all-reduce fused with a slice
_FREE = frozenset({"parameter", "constant", "get-tuple-element", "tuple", "bitcast", "iota", "after-all", "while"})
_MOVES = frozenset({"copy", "copy-start", "copy-done", "slice-start", "slice-done", "slice"})
_WRAPPERS = re.compile(  # JAX's wrappers around the trainer's own names
    r"jit\(.*\)|jvp\(.*\)|transpose\(.*\)|vmap\(.*\)|while|body|cond|scan|branch_\d+_fun|eval_jaxpr|checkpoint|"
    r"rematted_computation|closed_call|core_call|shard_map|custom_vjp_call|custom_jvp_call|pjit"
)
_WINDOW = re.compile(r"window=\{([^}]*)\}")
_LABELS = re.compile(r"dim_labels=(\w+)_(\w+)->(\w+)")
_GROUPS = re.compile(r"\b(feature|batch)_group_count=(\d+)")
_CONTRACTED = re.compile(r"lhs_contracting_dims=\{([\d,]*)\}")
_EINSUM = re.compile(r"[A-Za-z.]*,[A-Za-z.,]*->[A-Za-z.]*")


class Unit(NamedTuple):
    """A scheduled instruction: a fusion with all its instructions, or an instruction outside of any fusion."""

    kind: str  # "matmul", "copy", "kernel", "other", or one of COLLECTIVES
    detail: str  # operand types of matrix products, "bf16×bf16"; a custom call's target; else empty
    instruction: Instruction
    runs: Runs
    work: Work  # of all executions in a step
    collectives: tuple[tuple[str, int], ...]  # (kind, bytes of one execution) of each collective in it

    @property
    def source(self) -> Source:
        """The instruction's line in the text."""
        return Source(line=self.instruction.line, offset=self.instruction.offset, file=OPTIMISED)


class Analysis(NamedTuple):
    """A program's work in one step, in total and by unit."""

    work: ProgramWork
    units: tuple[Unit, ...]


def analyse_program(lines: Iterable[str]) -> Analysis:
    """Return the work and the units of a program's text. Raises ValueError if it is no optimised HLO program."""
    program = read_program(lines)
    runs, unknown = count_runs(program)
    units: list[Unit] = []
    sums: dict[tuple[str, bool], list[tuple[int, int]]] = defaultdict(list)
    kernels: Counter[str] = Counter()
    for name, here in runs.items():
        computation = program.computations[name]
        for one in computation.instructions.values():
            if one.opcode == "custom-call":
                kernels[one.target] += here.times
        for unit in () if here.fused else _units(program, computation, here):
            units.append(unit)
            for kind, size in unit.collectives:
                sums[kind, here.loops > 0].append((here.times, size * here.times))
    work = ProgramWork(
        work=add_work(unit.work for unit in units),
        collectives=tuple(
            CollectiveSum(
                kind=kind,
                in_loop=in_loop,
                executions=sum(times for times, _ in found),
                bytes=sum(size for _, size in found),
            )
            for (kind, in_loop), found in sorted(sums.items())
        ),
        kernels=dict(sorted(kernels.items())),
        aliases=program.aliases,
        unknown_loops=unknown,
    )
    return Analysis(work, tuple(units))


def add_work(parts: Iterable[Work]) -> Work:
    """Return the sum of the parts' work."""
    listed = list(parts)
    return Work(**{name: sum(getattr(part, name) for part in listed) for name in Work.model_fields})


def locate(op_name: str) -> tuple[str, str]:
    """Return (phase, scope) of an operation from its name in JAX: its pass, and the trainer's scopes around it.

    The phase is "forward", "backward", "recomputed" (in the backward pass) or "update" (all the rest).
    """
    if "rematted_computation" in op_name:
        phase = "recomputed"
    elif "transpose(" in op_name:
        phase = "backward"
    else:
        phase = "forward" if "jvp(" in op_name else "update"
    words = op_name.split("/")[:-1]  # the last is the operation itself
    return phase, "/".join(word for word in words if not _WRAPPERS.fullmatch(word) and not _EINSUM.fullmatch(word))


def _units(program: Program, computation: Computation, runs: Runs) -> Iterator[Unit]:
    for one in computation.instructions.values():
        if one.opcode in _FREE or one.opcode.endswith(("-done", "-update")):
            continue
        flops, types, found = 0, set(), []
        for holder, inner in _inside(program, computation, one):
            shapes = {name: other.shapes[0] for name, other in holder.instructions.items() if other.shapes}
            count = _count_flops(inner, shapes)
            if count:
                flops += count
                types.add("×".join(shapes[name].dtype for name in inner.operands[:2]))
            if (kind := inner.opcode.removesuffix("-start")) in COLLECTIVES:
                size = _collective_bytes(inner, holder)
                if kind == "all-reduce" and holder.name.startswith(_SCATTER):
                    kind = "reduce-scatter"
                found.append((kind, 2 * size if kind == "all-reduce" else size))
        times = runs.times
        work = Work(
            cycles=(one.cycles or 0) * times,
            flops=flops * times,
            collective_bytes=sum(size for _, size in found) * times,
        )
        if found:
            kind, detail = found[0][0], ""
        elif one.opcode == "custom-call":
            kind, detail = ("kernel" if one.target == KERNEL else "other"), one.target
        else:
            kind = "matmul" if flops else "copy" if one.opcode in _MOVES else "other"
            detail = ", ".join(sorted(types))
        yield Unit(kind, detail, one, runs, work, tuple(found))


def _inside(program: Program, computation: Computation, one: Instruction) -> Iterator[tuple[Computation, Instruction]]:
    """Yield an instruction and, if it is a fusion, all instructions inside; each with its computation."""
    yield computation, one
    if one.opcode == "fusion" and (inner := program.computations.get(one.calls.get("calls", ""))):
        for deeper in inner.instructions.values():
            yield from _inside(program, inner, deeper)


def _collective_bytes(one: Instruction, computation: Computation) -> int:
    """Return the bytes of a collective on one device: the larger sum of its operands and of its results."""
    known = [computation.instructions[name] for name in one.operands if name in computation.instructions]
    taken = sum(shape.bytes for operand in known for shape in operand.shapes)
    if one.opcode == "collective-permute-start":  # its result also contains two local counters of the runtime
        return taken
    made = sum(shape.bytes for shape in one.shapes)
    if one.opcode.endswith("-start"):  # its result also contains the operands
        made -= taken
    return max(taken, made)


def _count_flops(one: Instruction, shapes: Mapping[str, Shape]) -> int:
    """Return the FLOPs of a `convolution` (on TPUs also a matrix product) or a `dot`; 0 for others.

    shapes: operand's name → shape. Multiplications with padding and dilation holes do not count, as in XLA
    (`HloCostAnalysis::HandleConvolution`).
    """
    if one.opcode == "dot":
        found = _CONTRACTED.search(one.attributes)
        sizes = shapes[one.operands[0]].sizes
        contracted = [int(axis) for axis in found[1].split(",") if axis] if found else []
        return 2 * math.prod(one.shapes[0].sizes) * math.prod(sizes[axis] for axis in contracted)
    labels = _LABELS.search(one.attributes) if one.opcode == "convolution" else None
    if labels is None:
        return 0
    left, right, out = (
        dict(zip(names, shape.sizes, strict=True))
        for names, shape in zip(labels.groups(), (*(shapes[name] for name in one.operands), one.shapes[0]), strict=True)
    )
    groups = {kind: int(count) for kind, count in _GROUPS.findall(one.attributes)}
    axes = sorted(label for label in labels[1] if label.isdigit())
    windows = _read_windows(one.attributes, len(axes))
    valid = [
        _count_valid(left[axis], right[axis], out[axis], *window) for axis, window in zip(axes, windows, strict=True)
    ]
    inputs, batch = left["f"] // groups.get("feature", 1), left["b"] // groups.get("batch", 1)
    flops: int = 2 * inputs * out["f"] * batch * math.prod(valid)
    return flops


def _read_windows(attributes: str, count: int) -> Iterator[tuple[int, ...]]:
    """Yield for each axis of a window: stride, padding before it, dilation of the input, dilation of the kernel."""
    found = _WINDOW.search(attributes)
    words = dict(word.split("=", 1) for word in found[1].split()) if found else {}
    columns = [
        [int(part.partition("_")[0]) for part in words[key].split("x")] if key in words else [default] * count
        for key, default in (("stride", 1), ("pad", 0), ("lhs_dilate", 1), ("rhs_dilate", 1))
    ]
    return zip(*columns, strict=True)


def _count_valid(
    size: int, kernel: int, out: int, stride: int, padding: int, input_dilation: int, kernel_dilation: int
) -> int:
    """Return the number of (output index, kernel index) pairs along one axis that multiply an input value.

    Of an axis with more than 4 million pairs, all pairs are counted.
    """
    if out * kernel > 1 << 22:  # too many pairs to list; matrix products have fewer
        return out * kernel
    places = (at * stride + k * kernel_dilation - padding for at, k in product(range(out), range(kernel)))
    return sum(place >= 0 and place % input_dilation == 0 and place // input_dilation < size for place in places)
