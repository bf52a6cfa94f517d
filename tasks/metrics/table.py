"""The table of all metrics, in the order of their rows."""

from collections.abc import Iterable

from tasks.metrics import run_values as of
from tasks.metrics.metric import Metric, Printed
from tasks.records import CompiledProgram, ProgramMemory, ProgramWork

MIB = 2**20
SINGLE_STEP = "a single step is not a measurement"
PART_OF_SUM = "the sum is judged"
TOO_FEW = "too few steps"

END = Metric(
    name="end", title="End of the run", unit="", better="equal", rule="how the run ended", decimals=None,
    judged="proof", result=True,
)  # fmt: skip
PARAMETERS = Metric(
    name="parameters", title="Parameters", unit="", better="equal", rule="as printed", decimals=None,
    judged="exact", tolerance="parameters", of=of.parameters, maxview=True,
    result=True, trend=True, bisected=True, explained=True,
)  # fmt: skip
FINAL_LOSS = Metric(
    name="final_loss", title="Final loss", unit="", better="lower", rule="last step", decimals=4,
    judged="exact", tolerance="loss", word_of="loss_per_step", of=of.last_step("loss", 4), maxview=True,
    result=True, trend=True, explained=True,
)  # fmt: skip
TFLOPS = Metric(
    name="tflops_per_device", title="TFLOP/s", unit="TFLOP/s/device", better="higher", rule="last step only",
    decimals=3, judged="noise", word_of="step_time_s", why=SINGLE_STEP, of=of.last_step("tflops_per_device", 3),
    maxview=True, trend=True, curve="tflops_per_device",
)  # fmt: skip
TOKENS = Metric(
    name="tokens_per_s", title="Tok/s", unit="tokens/s/device", better="higher", rule="last step only", decimals=3,
    judged="noise", word_of="step_time_s", why=SINGLE_STEP, of=of.last_step("tokens_per_s_per_device", 1),
    maxview=True, trend=True, curve="tokens_per_s_per_device",
)  # fmt: skip
MEAN_STEP = Metric(
    name="avg_step_time_s", title="Avg s/step", unit="s", better="lower", rule="mean without step 0", decimals=3,
    judged="noise", word_of="step_time_s", why="the mean is ruled by stalls", of=of.mean_step, maxview=True, trend=True,
)  # fmt: skip
MEMORY_PERCENT = Metric(
    name="memory_percent", title="Memory %", unit="%", better="lower", rule="fullest device", decimals=2,
    judged="exact", tolerance="memory_percent", of=of.memory_percent, maxview=True, trend=True,
)  # fmt: skip
JAX = Metric(
    name="jax", title="JAX", unit="", better="equal", rule="as printed", decimals=None,
    judged="exact", of=of.jax_version, maxview=True,
)  # fmt: skip
STEP_TIME = Metric(
    name="step_time_s", title="Step time, steady", unit="s", better="lower",
    rule="10 % quantile without the first step and dispatch artefacts, mean of the runs; ±: what a run leaves open",
    decimals=4, judged="noise", tolerance="step_time_s", trend=True, quick="step_time_quick_s",
    middle="Step time, middle steps", curve="step_time_s", curve_title="Step time", bisected=True, explained=True,
)  # fmt: skip
CPU_TIME = Metric(
    name="step_cpu_time_s", title="CPU time per step", unit="s", better="lower",
    rule="processor time of all threads; as the step time", decimals=4,
    judged="noise", tolerance="step_cpu_time_s", trend=True, quick="step_cpu_time_quick_s",
    middle="CPU time per step, middle steps", curve="step_cpu_time_s", bisected=True, explained=True, optional=True,
)  # fmt: skip
STALLS = Metric(
    name="stall_s", title="Stalls", unit="s", better="lower",
    rule="seconds above the steady median, summed over the stalls of a run; the median of the runs", decimals=1,
    judged="shown", why="waiting for checkpoints and the host, kept apart from the step time: storage decides it",
    of=of.stalled, of_runs=of.stalled_of_runs, lacking=TOO_FEW, trend=True,
)  # fmt: skip
FIRST_STEP = Metric(
    name="first_step_s", title="First step", unit="s", better="lower", rule="seconds of the first step", decimals=3,
    judged="shown", why="compilation and the first execution, once per run", of=of.first_step, trend=True,
)  # fmt: skip
MFU = Metric(
    name="mfu", title="MFU", unit="%", better="higher",
    rule="TFLOP of a step and device, by the steady step time, over the TFLOP/s that the device can do", decimals=2,
    judged="shown", why="follows from the steady step time, which is judged", of_steps=of.mfu_percent, optional=True,
)  # fmt: skip
LOSS = Metric(
    name="loss_per_step", title="Loss, step by step", unit="", better="lower",
    rule="first step whose loss differs in any run; judged over all steps", decimals=6,
    judged="steps", tolerance="loss", result=True, curve="loss", curve_title="Loss", bisected=True, explained=True,
)  # fmt: skip
EVALUATION = Metric(
    name="evaluations", title="Evaluation", unit="", better="lower",
    rule="first evaluation that differs in any run, else the last one; judged over all of them", decimals=6,
    judged="steps", result=True, optional=True,
)  # fmt: skip
VALUES = Metric(
    name="values_per_step", title="Other values, step by step", unit="", better="equal",
    rule="what else every run writes and no clock decides: norms, rates, counts", decimals=None,
    judged="steps", tolerance="step_values", result=True, bisected=True, explained=True, optional=True,
)  # fmt: skip
FINAL_STATE = Metric(
    name="final_state", title="Final state", unit="", better="equal",
    rule="the trainer's digest of every array after the last step, over all runs", decimals=None,
    judged="proof", result=True, optional=True,
)  # fmt: skip
MEMORY = Metric(
    name="program_memory_gb", title="Program memory", unit="GiB", better="lower",
    rule="the compiler's forecast for one device", decimals=4,
    judged="exact", tolerance="program_memory_gb", precision="the byte", of=of.program_memory,
    printed=Printed(of=of.printed_memory, decimals=1, precision="printed precision (1 decimal)"),
    trend=True, bisected=True, explained=True,
)  # fmt: skip
CHECKPOINTS = Metric(
    name="checkpoints", title="Checkpoints", unit="", better="equal",
    rule="committed and verified, of those announced", decimals=None, judged="proof", result=True, bisected=True,
)  # fmt: skip

# of two runs, in the order of the rows
METRICS = (
    END, PARAMETERS, FINAL_LOSS, TFLOPS, TOKENS, MEAN_STEP, MEMORY_PERCENT, JAX, STEP_TIME, CPU_TIME, STALLS,
    FIRST_STEP, MFU, LOSS, EVALUATION, VALUES, FINAL_STATE, MEMORY, CHECKPOINTS,
)  # fmt: skip
BY_NAME = {metric.name: metric for metric in METRICS}


def _memory_part(name: str, title: str) -> Metric:
    def read(program: CompiledProgram, work: ProgramWork | None) -> float | None:
        return None if program.memory is None else _bytes_of(program.memory, name) / of.GIB

    return PROGRAM_MEMORY.model_copy(
        update={
            "name": f"memory_{name}", "title": f"– {title}", "rule": "the compiler's own", "judged": "shown",
            "why": PART_OF_SUM, "of_program": read,
        }
    )  # fmt: skip


def _bytes_of(memory: ProgramMemory, name: str) -> int:
    if name == "host":
        return memory.host_argument + memory.host_output + memory.host_temp
    size: int = getattr(memory, name)
    return size


def _collectives(work: ProgramWork | None, where: Iterable[bool]) -> float | None:
    return None if work is None else sum(one.bytes for one in work.collectives if one.in_loop in where) / MIB


def _collectives_part(name: str, title: str, *, in_loop: bool) -> Metric:
    return COLLECTIVES.model_copy(
        update={
            "name": f"collective_bytes_{name}", "title": f"– {title} of loops", "judged": "shown", "why": PART_OF_SUM,
            "of_program": lambda program, work: _collectives(work, (in_loop,)),
        }
    )  # fmt: skip


COMPILES = Metric(
    name="compiles", title="Compiles and fits", unit="", better="equal", rule="the compile", decimals=None,
    judged="proof",
)  # fmt: skip
# the same metric as of a run, known before one
PROGRAM_MEMORY = MEMORY.model_copy(
    update={
        "title": "Memory of a device",
        "rule": "the compiler's sum of arguments, outputs and temporary values, less what is written in place",
        "of_program": lambda program, work: program.memory and program.memory.total / of.GIB,
    }
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

# of two compiled programs, in the order of the rows
PROGRAM_METRICS = (
    COMPILES, PROGRAM_MEMORY,
    *(_memory_part(name, title) for name, title in (
        ("argument", "arguments"), ("output", "outputs"), ("alias", "outputs in place of arguments"),
        ("temp", "temporary values"), ("generated_code", "code"), ("host", "of the host"),
    )),
    CYCLES, COLLECTIVES, _collectives_part("in", "inside", in_loop=True),
    _collectives_part("out", "outside", in_loop=False), FLOPS, KERNELS, COMPILE_TIME,
)  # fmt: skip
