"""The metrics of the compiled training step: for runs, and for two programs that are compared without running them."""

from collections.abc import Iterable

from tasks.metrics.metric import Metric, Printed, number
from tasks.records.compiled import CompiledProgram, ProgramMemory, ProgramWork
from tasks.records.run import RunRecord
from tasks.records.run_facts import Measured

GIB, MIB = 2**30, 2**20  # MaxText prints GiB as GB
MEMORY_PARTS = ("argument", "output", "temp")  # MaxText prints their sum minus "alias" (outputs in arguments' place)
PART_OF_SUM = "the sum is judged"


def program_memory(run: RunRecord) -> Measured:
    """Return the compiler's estimate of memory per device, in GiB: from the trainer's report, else from the log."""
    stated = run.program.get("memory_bytes")
    sizes = [stated.get(name) for name in (*MEMORY_PARTS, "alias")] if isinstance(stated, dict) else [None]
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) < len(sizes):
        return printed_memory(run)
    return number((sum(known[:-1]) - known[-1]) / GIB, 4, run.reading.memory.source)


def compiled_programs(run: RunRecord) -> Measured:
    """Return how often JAX compiled the training step, by its files or else the log, and the last compile's source."""
    compiles = run.compiles or run.reading.compiles
    return number(len(compiles), 0, compiles[-1].source) if compiles else Measured()


def printed_memory(run: RunRecord) -> Measured:
    """Return the memory per device that the log prints, in GiB with one decimal."""
    memory = run.reading.memory
    return Measured() if memory.total_gb is None else number(memory.total_gb, 1, memory.source, unit=0.1)


MEMORY = Metric(
    name="program_memory_gb", title="Program memory", unit="GiB", better="lower",
    rule="the compiler's forecast for one device", decimals=4,
    judged="exact", tolerance="program_memory_gb", precision="the byte", of=program_memory,
    printed=Printed(of=printed_memory, decimals=1, precision="printed precision (1 decimal)"),
    trend=True, bisected=True, explained=True,
)  # fmt: skip
COMPILED_PROGRAMS = Metric(
    name="compiled_programs", title="Compiled programs", unit="", better="lower",
    rule="how often JAX compiled the training step", decimals=0,
    judged="exact", precision="the last digit", of=compiled_programs, optional=True, trend=True,
)  # fmt: skip
FRONT_END = Metric(
    name="front_end_s", title="Tracing and lowering", unit="s", better="lower",
    rule="the step's trace and lowering, before it is compiled: processor time of one thread, the quickest of five",
    decimals=2, judged="proof", optional=True,
)  # fmt: skip
STEP_PROGRAM_METRICS = (MEMORY, COMPILED_PROGRAMS, FRONT_END)  # metrics of runs


def _memory_part(name: str, title: str) -> Metric:
    def read(program: CompiledProgram, work: ProgramWork | None) -> float | None:
        return None if program.memory is None else _bytes_of(program.memory, name) / GIB

    return PROGRAM_MEMORY.replace(
        name=f"memory_{name}",
        title=f"– {title}",
        rule="the compiler's own",
        judged="shown",
        why=PART_OF_SUM,
        of_program=read,
    )


def _bytes_of(memory: ProgramMemory, name: str) -> int:
    if name == "host":
        return memory.host_argument + memory.host_output + memory.host_temp
    size: int = getattr(memory, name)
    return size


def _collectives(work: ProgramWork | None, where: Iterable[bool]) -> float | None:
    return None if work is None else sum(one.bytes for one in work.collectives if one.in_loop in where) / MIB


def _collectives_part(name: str, title: str, *, in_loop: bool) -> Metric:
    return COLLECTIVES.replace(
        name=f"collective_bytes_{name}",
        title=f"– {title} of loops",
        judged="shown",
        why=PART_OF_SUM,
        of_program=lambda program, work: _collectives(work, (in_loop,)),
    )


COMPILES = Metric(
    name="compiles", title="Compiles and fits", unit="", better="equal", rule="the compile", decimals=None,
    judged="proof",
)  # fmt: skip
# Metrics of compiled programs, known without a run. PROGRAM_MEMORY has the name and tolerance of MEMORY (of runs).
PROGRAM_MEMORY = MEMORY.replace(
    title="Memory of a device",
    rule="the compiler's sum of arguments, outputs and temporary values, less what is written in place",
    of_program=lambda program, work: program.memory and program.memory.total / GIB,
)
CYCLES = Metric(
    name="estimated_cycles", title="Estimated cycles", unit="", better="lower",
    rule="the compiler's estimates, of a loop's body as often as it runs; collectives have none", decimals=0,
    judged="exact", tolerance="estimated_cycles", precision="the cycle",
    of_program=lambda program, work: work and work.work.cycles,
)  # fmt: skip
COLLECTIVES = Metric(
    name="collective_bytes", title="Bytes in collectives", unit="MiB", better="lower",
    rule="of the whole arrays, in loops as often as they run; those of an all-reduce twice", decimals=2,
    judged="exact", tolerance="collective_bytes", precision="the byte",
    of_program=lambda program, work: work and work.work.collective_bytes / MIB,
)  # fmt: skip
FLOPS = Metric(
    name="matmul_flops", title="FLOPs of matrix products", unit="GFLOP", better="equal",
    rule="per device and step, in loops as often as they run, without those inside kernels", decimals=3,
    judged="shown", why="what they cost is in the cycles",
    of_program=lambda program, work: work and work.work.flops / 1e9,
)  # fmt: skip
KERNELS = Metric(
    name="kernels", title="Custom kernels", unit="", better="equal",
    rule="executions of kernels that the trainer brings along", decimals=0,
    judged="exact", of_program=lambda program, work: work and work.kernels.get("tpu_custom_call", 0),
)  # fmt: skip
COMPILE_TIME = Metric(
    name="compile_cpu_s", title="Compile time", unit="CPU-s", better="lower", rule="of all threads", decimals=1,
    judged="shown", of_program=lambda program, work: program.compile_cpu_seconds,
)  # fmt: skip

# metrics of two compiled programs, in the order of the table's rows
PROGRAM_METRICS = (
    COMPILES, PROGRAM_MEMORY,
    *(_memory_part(name, title) for name, title in (
        ("argument", "arguments"), ("output", "outputs"), ("alias", "outputs in place of arguments"),
        ("temp", "temporary values"), ("generated_code", "code"), ("host", "of the host"),
    )),
    CYCLES, COLLECTIVES, _collectives_part("in", "inside", in_loop=True),
    _collectives_part("out", "outside", in_loop=False), FLOPS, KERNELS, COMPILE_TIME,
)  # fmt: skip
