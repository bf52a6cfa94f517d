"""The tables of texts that show a run's death: lines to search a log for, and classes of death by the error's text.

A death is any failure that ends a run. `DEATHS`, `JAX_DEATHS` and `RANK_DEATHS`: pattern name → pattern of a line.
`CAUSES`: patterns of an error's text, each with its class of death and a source.

`classify` returns the class of the first row of `CAUSES` that matches. Rows for memory, evictions and preemptions come
first, because these events cause the errors of later rows, e.g. a failed checkpoint or a time-out. The row for words
that any program may print (`must be`) comes last and applies only before the first step.
"""

import re
import signal
from contextlib import suppress
from dataclasses import dataclass

from tasks.records.run_end import DeathKind
from tasks.scrape.prefixes import END

_SRUN = rb"\bsrun: error: [^\s:]{1,200}: tasks? [\d,\- ]{1,200}: "
_SIGNAL = rb"(?:Killed|Terminated|Aborted|Segmentation fault|Bus error)"

# texts in the logs of every trainer
DEATHS = {
    "exit_code": rb"EXIT_CODE=(\d{1,3})(?!\d)",
    # a notebook prints the exception's name before this text, and no colon after it
    "traceback": rb"Traceback \(most recent call last\)(?::|(?=[ \t]*\r?\n))",
    "fatal_python": rb"Fatal Python error: ([^\n]*?)" + END,
    "usage": rb"FATAL Flags parsing error:\s+([^\n]*?)%s|(?m:^)(?!srun|slurmstepd|sbatch|salloc)"
    rb"[\w./-]{1,100}: error: ([^\n]*?)%s" % (END, END),
    "signal": rb"\*\*\* (SIG[A-Z]+)(?: \(@0x[\da-f]+\))?(?:, see \S{1,80})? received by PID \d+[^\n]{0,200}|"
    rb"\bline \d+: +\d+ (%s)\b|(?m:^)(%s)(?: \(core dumped\))?[ \t]*(?m:\r?$)|"
    # SLURM; PALS and MPICH; Open MPI
    rb"%s(%s)\b|\brank \d{1,9} died from signal (\d{1,2})\b|\bexited on signal (\d{1,2}) \([A-Z]|"
    rb"\bCommand (?:terminated|killed) by signal (\d{1,2})\b" % (_SIGNAL, _SIGNAL, _SRUN, _SIGNAL),
    # kubectl, the runners of GitHub and GitLab, docker compose
    "exited": rb"(?:command terminated with|Process completed with|Job failed:|exited with) (?:exit )?code "
    rb"(\d{1,3})(?!\d)",
    "event": rb"(?:SIGTERM caught at|exiting program after receiving SIGTERM|"
    rb"Preempted (?:to accommodate|by rule|in order to admit|by a pod)|EvictedDueTo\w+|"
    rb"PreemptionByScheduler|DeletionByTaintManager|TaintManagerEviction|EvictionByEvictionAPI|TerminationByKubelet|"
    rb"OOMKilled|[Oo]ut of memory: Kill(?:ed)? process|oom-kill|low on resource: (?:memory|ephemeral-storage)|"
    rb"ephemeral local storage usage exceeds|terminated in response to imminent node shutdown|SLICE_FAILURE_\w+|"
    rb"[Kk]illed due to (?:memory pressure|the node running low on memory)|A worker died or was killed while executing|"
    rb"active (?:on the node )?longer than (?:the )?specified deadline|"
    rb"[Mm]aintenance [Ee]vent|\b[Pp]reemption (?:notice|signal|event)|DUE TO (?:PREEMPTION|TIME LIMIT|JOB REQUEUE|"
    rb"NODE FAILURE)|%sOut Of Memory|"
    rb"\b(?:[Ii]nstance|[Nn]ode|VM|[Ww]orker|TPU|[Pp]od|[Jj]ob|[Ww]orkload) "
    rb"(?:was|has been|got) (?:preempted|evicted))[^\n]*?" % _SRUN + END,
    # torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp
    "watchdog": rb"(?:Watchdog caught collective operation timeout: |watchdog thread terminated with exception: |"
    rb"Some NCCL operations have failed or timed out)[^\n]{0,400}",
    # ROCm's runtime (core/runtime/runtime.cpp)
    "memory_fault": rb"(Memory access fault by GPU node-\d+[^\n]{0,400})",
    # an exception without its traceback
    "raised": rb"(?m:^)(?:\[?rank ?\d+\]?: ?)?((?:\w+\.)*[A-Z]\w*(?:Error|Exception))(?:: ([^\n]*))?(?m:\r?$)",
}
# texts in the logs of JAX programs
JAX_DEATHS = {
    "aborted": rb"(Aborting training due to (?:NaN|Inf) loss\.)",
    # absl; before it has read the time zone, it prints the seconds since 1970
    "fatal": rb"F\d{4} \d\d:\d\d:(?:\d\d|\d{9,11})\.\d{6} +\d+ [\w.+-]+:\d+\] ?([^\n]*?)" + END,
    # TSL: `2025-04-05 18:39:10.838153: F external/xla/xla/pjrt/distributed/client.h:80] …`
    "fatal_tsl": rb": F +(?:\d+ +)?[\w./+-]+:\d+\] ?([^\n]*?)" + END,
    "fatal_cpp": rb"(terminate called (?:after throwing an instance of '[^'\n]{1,200}'|without an active exception)|"
    rb"LLVM ERROR: [^\n]{1,400})",
    "stopped": rb"Training stopped: ([^\n]*?)" + END,
}
# texts in logs that several ranks under one launcher write
RANK_DEATHS = {
    # SLURM: `slurmstepd: error: …`, `[2026-04-20T03:25:23.011] error: *** STEP … CANCELLED …`
    "slurm": rb"(?:slurmstepd: error: (?=[^\n]{0,300}(?:oom|OOM|Out Of Memory|CANCELLED|TIME LIMIT))|\] error: "
    rb"(?=\*\*\* [^\n]{0,300}CANCELLED))([^\n]{1,600})",
    "slurm_exit": rb"srun: (error: [^\s:]{1,200}: tasks? [\d,\- ]{1,200}: Exited with exit code \d{1,3})",
    "terminated": rb"terminate called after throwing an instance of '([^'\n]{1,100})'\s{1,9}what\(\): +([^\n]{0,400})",
    # torch/distributed/elastic/multiprocessing: `exitcode  : -9 (pid: 14750)` in a table, and the agent's line;
    # deepspeed/launcher/launch.py: `exits with return code = -9`
    "child": rb"exit(?:code {0,4}: |s with return code = )-(\d{1,3})(?!\d)(?:\) local_rank: \d{1,9})?"
    rb"(?: \(pid: \d{1,12}\))?",
}
# pattern name → (form, type) of the finding (`DeathSign`)
NOTED = {
    "aborted": ("stop", "SystemExit"), "stopped": ("stop", "StopTraining"), "usage": ("usage", "ArgumentError"),
    "fatal": ("fatal", "Fatal"), "fatal_tsl": ("fatal", "Fatal"), "fatal_cpp": ("fatal", "Fatal"),
    "fatal_python": ("fatal", "Fatal Python error"), "watchdog": ("fatal", "NCCL"), "memory_fault": ("fatal", "GPU"),
    "slurm": ("fatal", "slurmstepd"), "slurm_exit": ("exit", "srun"),
}  # fmt: skip
_WORDS = {"Killed": "SIGKILL", "Terminated": "SIGTERM", "Aborted": "SIGABRT", "Segmentation fault": "SIGSEGV",
         "Bus error": "SIGBUS"}  # fmt: skip


def signal_name(printed: str) -> str:
    """Return the signal's name: `SIGKILL` for `Killed` or `9`. Other words stay unchanged; `99` becomes `signal 99`."""
    if printed.isascii() and printed.isdigit():
        with suppress(ValueError):  # not a signal number on this system
            return signal.Signals(int(printed)).name
        return f"signal {printed}"
    return _WORDS.get(printed, printed)


JAX = "https://github.com/jax-ml/jax"
XLA = "https://github.com/openxla/xla"
MAXTEXT = "https://github.com/AI-Hypercomputer/maxtext"
KUBERNETES = "https://github.com/kubernetes/kubernetes"
PYTHON = "https://docs.python.org/3/library"


@dataclass(frozen=True)
class Cause:
    """A row of `CAUSES`: errors that match `pattern`, but no earlier row, belong to the class `kind`."""

    kind: DeathKind
    pattern: str  # regular expression; searched in the text that `classify` describes
    source: str  # URL of a program, a manual or a report with such an error
    backend: str | None = None  # the only JAX backend that the row applies to, e.g. "cpu"; None: all backends
    early: bool = False  # the row applies only to errors before the first step


CAUSES: tuple[Cause, ...] = (
    # JAX's CPU backend allocates its arrays in host memory
    Cause("host_oom", r"RESOURCE_EXHAUSTED: .*[Oo]ut of memory|[Oo]ut of memory allocating \d+", XLA, backend="cpu"),
    # XLA for TPU, at compile time: "Ran out of memory in memory space hbm. Used 21.95G of 15.48G hbm."
    Cause("device_oom", r"[Rr]an out of memory in memory space \w+|Exceeded \w+ capacity by",
        "https://github.com/LargeWorldModel/LWM/issues/60"),
    # the libtpu of JAX 0.10: "… the total memory required for HLO temporaries (44.00G) exceeds available HBM (31.25G)."
    Cause("device_oom", r"[Rr]an out of memory on HBM|exceeds available HBM", f"{JAX}/issues"),
    # libtpu since 2026 prints an error code; the row after it is XLA's warning about programs that never fit
    Cause("device_oom", r"CompileTime\w*Oom\b", "https://github.com/vllm-project/tpu-inference/pull/3194"),
    Cause("device_oom", r"unlikely to have enough memory\. Requires", f"{JAX}/issues/7822"),
    # XLA for TPU, at run time
    Cause("device_oom",
        r"[Aa]ttempting to (?:allocate|reserve) [\d.]+\w* *(?:at the \w+ of memory)?\. That was not possible",
        "https://github.com/google-deepmind/gemma/issues/85"),
    # pinned memory is host memory on every backend
    Cause("host_oom", r"(?i)(?:failed|unable) to allocate .{0,80}(?:pinned|host) memory", f"{JAX}/issues/23599"),
    # XLA for GPU; older JAX prints "Resource exhausted" instead of RESOURCE_EXHAUSTED
    Cause("device_oom",
        r"(?:RESOURCE_EXHAUSTED|Resource exhausted): (?:.{0,200}: )?(?:[Oo]ut of memory|[Ff]ailed to allocate|"
        r"Error (?:allocating|loading)|Allocation (?:failure|type)|Attempting|XLA:TPU|TPU)|"
        r"Out of memory while trying to allocate", f"{JAX}/issues/13428"),
    Cause("device_oom",
        r"CUDA_ERROR_OUT_OF_MEMORY|(?:CUDA|HIP|XPU|NPU) out of memory|(?:CUDA|HIP) (?:driver )?error: out of memory|"
        r"torch\.(?:cuda\.)?OutOfMemoryError|"
        r"CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED", "https://github.com/NovaSky-AI/SkyRL/issues/624"),
    Cause("device_oom", r"Cuda failure (?:\d+ )?'out of memory'",
        "https://github.com/NVIDIA/nccl/blob/master/src/include/checks.h"),
    Cause("device_oom", r"UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
        "https://github.com/oneapi-src/unified-runtime/blob/main/include/ur_api.h"),
    Cause("host_oom", r"\AMemoryError|_ArrayMemoryError|std::bad_alloc|[Cc]annot allocate memory|\[Errno 12\]|"
        r"can't allocate memory: |DefaultCPUAllocator: not enough memory", f"{PYTHON}/exceptions.html#MemoryError"),
    # messages of the kernel and the kubelet
    Cause("host_oom",
        r"OOMKilled|[Oo]ut of memory: Kill(?:ed)? process|oom-kill|[Oo]om_kill event|low on resource: memory|"
        r"MemoryPressure|worker .{0,60}killed by signal: Killed|might be out of shared memory|"
        r"insufficient shared memory|workers are out of shared memory|: Out Of Memory\b|"
        r"killed due to (?:the node running low on memory|memory pressure)|NODE_OUT_OF_MEMORY",
        f"{KUBERNETES}/issues/112927"),
    # the kubelet evicts pods when the disk is full
    Cause("disk_full", r"low on resource: ephemeral-storage|ephemeral local storage usage exceeds",
        f"{KUBERNETES}/blob/master/pkg/kubelet/eviction/helpers.go"),
    Cause("preempted", r"in response to imminent node shutdown",
        "https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/"),
    # MaxText prints this and stops without an error; until 2026-06 it printed "Job is preempted."
    Cause("preempted", r"Job is preempted|Job received termination signal \(SIGTERM\)", f"{MAXTEXT}/pull/4124"),
    Cause("preempted",
        r"Preempted (?:to accommodate|by rule|in order to admit|by a pod)|EvictedDueTo\w+|PreemptionByScheduler",
        "https://github.com/kubernetes-sigs/kueue/issues/7350"),
    Cause("preempted",
        r"DeletionByTaintManager|TaintManagerEviction|DisruptionTarget|EvictionByEvictionAPI|TerminationByKubelet|"
        r"^Evicted$|\bEvicted\b.{0,200}\bpod\b",
        "https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions"),
    Cause("preempted", r"DUE TO JOB REQUEUE", "https://github.com/facebookincubator/submitit/issues/1708"),
    # with --exit-signal-handler, Megatron saves a checkpoint, prints this and stops without an error
    Cause("preempted", r"exiting program after receiving SIGTERM", "https://github.com/NVIDIA/Megatron-LM"),
    Cause("preempted", r"SIGTERM caught at", f"{XLA}/tree/main/xla/tsl/distributed_runtime/preemption"),
    Cause("preempted",
        r"(?i:(?:instance|node|VM|worker|TPU|pod|job|task|workload)\b.{0,60}\b(?:was|been|got) (?:preempted|evicted))|"
        r"(?i:\bmaintenance event)|(?i:\bpreemption (?:notice|signal|event))|DUE TO PREEMPTION",
        "https://cloud.google.com/tpu/docs/maintenance-events"),
    Cause("not_implemented", r"\A(?:\w+\.)*NotImplementedError|\bUNIMPLEMENTED: |\bUnimplemented: ",
        f"{PYTHON}/exceptions.html#NotImplementedError"),
    Cause("not_implemented", r"Mosaic failed to compile TPU kernel: (?i:not implemented)", f"{JAX}/issues/29520"),
    Cause("nan", r"due to (?:NaN|Inf) loss", f"{MAXTEXT}/blob/main/src/maxtext/common/metric_logger.py"),
    Cause("nan",
        r"\A(?:\w+\.)*FloatingPointError|invalid value \((?:nan|inf)\)|(?i:\bloss (?:is|was|became) (?:nan|inf))|"
        r"found (?:NaN|Inf) in|Unexpected result (?:nan|inf)|(?i:\bnan (?:detected|found) in)", f"{JAX}/issues/25701"),
    # DeepSpeed: fp16 gradients are NaN or infinite even at the smallest loss scale
    Cause("nan", r"loss scale already at minimum",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/fp16/loss_scaler.py"),
    # Orbax and JAX trees: the checkpoint belongs to another model
    Cause("shape_mismatch", r"tree structures do not match|Dict key mismatch|Custom node type mismatch",
        f"{MAXTEXT}/pull/4099"),
    Cause("shape_mismatch",
        r"IndivisibleError|(?:not|be) (?:evenly )?divisible by|does not evenly divide|axis sizes that are not",
        f"{JAX}/issues/27808"),
    Cause("shape_mismatch",
        r"ScopeParamShapeError|[Ii]ncompatible shapes|[Ss]hape mismatch|[Mm]ismatched? (?:shapes?|sharding)|"
        r"[Ss]hapes? .{0,80}(?:must|do(?:es)?(?: not|n't)|not) (?:match|be equal|agree)|dot_general requires|"
        r"cannot reshape array of size|[Rr]equested shape: .{0,200}not compatible|got shapes? ",
        "https://github.com/google/orbax/issues/648"),
    Cause("shape_mismatch", r"size mismatch for |shapes cannot be multiplied|size of tensor a \(",
        "https://github.com/pytorch/pytorch/blob/main/torch/nn/modules/module.py"),
    Cause("shape_mismatch",
        r"does not match the product of the \S* ?parallelism|[Nn]umber of devices .{0,80}(?:match|product|mesh)",
        f"{MAXTEXT}/issues/30"),
    Cause("shape_mismatch",
        r"ShardingTypeError|[Ss]harding .{0,200}(?:incompatible|implies|mismatch)|Received incompatible devices|"
        r"PartitionSpec .{0,200}(?:rank|axis|axes)", f"{JAX}/issues/15788"),
    Cause("disk_full",
        r"\[Errno (?:28|122)\]|No space left on device|Disk quota exceeded|Not enough free space to write",
        f"{PYTHON}/exceptions.html#os-exceptions"),
    Cause("storage", r"google\.(?:api_core|cloud|auth)\.|\Abotocore\.exceptions\.|"
        r"Error executing an HTTP request: HTTP response code|\Agcsfs\.|storage\.googleapis\.com|"
        r"No such (?:object|bucket)|"
        r"does not have storage\.\w+\.\w+ access", "https://github.com/pangeo-data/pangeo/issues/176"),
    Cause("storage",
        r"\A(?:\w+\.)*(?:FileNotFoundError|FileExistsError|PermissionError|IsADirectoryError|NotADirectoryError|"
        r"BlockingIOError)\b|\[Errno (?:2|5|13|17|20|21|30|107|116|121)\]|"
        r"Stale file handle|Read-only file system|Transport endpoint is not connected|Input/output error",
        f"{PYTHON}/exceptions.html#os-exceptions"),
    Cause("storage", r"Error (?:opening|reading|writing) |InvalidLayoutError|commit_success\.txt|DATA_LOSS: |"
        r"(?i:checkpoint .{0,80}(?:not found|does not exist|is corrupt))|[Ff]ound incomplete checkpoint",
        "https://github.com/google/orbax/issues/924"),
    # missing or damaged inputs: TensorFlow, the Hugging Face Hub, PyTorch, safetensors
    Cause("storage",
        r"\A(?:\w+\.)*(?:errors_impl\.(?:NotFoundError|PermissionDeniedError|DataLossError)|DatasetNotFoundError|"
        r"RepositoryNotFoundError|GatedRepoError|SafetensorError)\b|PytorchStreamReader failed",
        "https://github.com/tensorflow/tensorflow/issues/37132"),
    Cause("storage", r"Checkpointing failed", f"{MAXTEXT}/pull/1886"),
    # failed writes of PyTorch, NumPy and C++ streams: their messages omit the operating system's error
    Cause("storage", r"PytorchStreamWriter failed|inline_container\.cc:\d+\] \. unexpected pos \d+ vs \d+|"
        r"\d+ requested and \d+ written|\biostream error",
        "https://github.com/pytorch/pytorch/blob/main/caffe2/serialize/inline_container.cc"),
    Cause("timeout", r"DEADLINE_EXCEEDED|Deadline Exceeded|[Bb]arrier timed out",
        "https://github.com/AI-Hypercomputer/gpu-recipes/issues/2"),
    Cause("timeout", r"(?i:heartbeat timeout)|stopped sending heartbeats", f"{JAX}/issues/23599"),
    Cause("timeout", r"\A(?:\w+\.)*\w*Timeout\w*\b|longer than (?:the )?specified deadline|"
        r"DUE TO TIME LIMIT|ActiveDeadlineExceeded|DeadlineExceeded|(?i:\btimed out\b)|"
        r"[Ww]atchdog caught collective operation timeout|(?i:exceeded the (?:\w+ )?(?:deadline|time limit))",
        f"{PYTHON}/exceptions.html#TimeoutError"),
    Cause("killed", r"CANCELLED AT \S+", "https://github.com/SchedMD/slurm/blob/master/src/slurmd/slurmstepd/req.c"),
    Cause("killed",
        r"\AKeyboardInterrupt|\A(?:SIGKILL|SIGTERM|SIGINT|SIGHUP)\b|\A(?:Killed|Terminated)\b|SIGTERM received by PID|"
        r"A worker died or was killed while executing|"
        r"\bgot signal: (?:2|9|15)\b|died with <Signals\.SIG(?:KILL|TERM|INT): |exit(?:ed with)? code -(?:9|15)\b",
        "https://github.com/pytorch/xla/issues/3947"),
    Cause("configuration",
        r"\A(?:\w+\.)*(?:ValidationError|UnrecognizedFlagError|IllegalFlagValueError|ConfigError|ConfigurationError|"
        r"ConfigAttributeError|MissingMandatoryValue|ArgumentError|ParserError|ScannerError)\b|"
        r"FATAL Flags parsing error|unrecognized arguments", "https://errors.pydantic.dev/latest/v/value_error"),
    # a file that reads the settings raised the error; `classify` gets its name in the text's last line
    Cause("configuration",
        r"^in (?:pyconfig\w*|types|arguments|config\w*)\.py$|(?i:isn't in (?:the )?config|passed at the command line)",
        f"{MAXTEXT}/blob/main/src/maxtext/configs/pyconfig.py"),
    Cause("configuration",
        r"\A(?:ValueError|AssertionError|KeyError|TypeError|RuntimeError): .*(?i:\bmust\b|\bshould be\b|\binvalid\b|"
        r"needs? to be|\bunsupported\b|\bnot supported\b|only supported|unknown|unrecogni[sz]ed|"
        r"\bnot (?:allowed|valid|in)\b|\bcannot be (?:used|set|combined)\b|\bplease (?:set|use|specify)\b|"
        r"is required|\bis removed\b)", f"{MAXTEXT}/blob/main/src/maxtext/configs/types.py", early=True),
)  # fmt: skip
# errors that only report the death of another process or host
_FOLLOWERS = re.compile(
    r"JAX distributed service detected (?:fatal errors|failure)|another task died|coordination service|"
    r"(?:failed, got preempted, or crashed|stopped sending heartbeats)|[Hh]eartbeat timeout|Socket closed|"
    r"[Bb]arrier timed out|Connection reset by peer|ChildFailedError|remote process exited|The tasks have crashed|"
    r"ncclRemoteError|unexpected exit of a remote peer|closed by (?:remote )?peer|ActorDiedError|"
    r"actor died unexpectedly|Shutdown barrier|Task exited unexpectedly|Gloo .{0,200}[Cc]onnect"
)
# The coordination service guesses why other hosts died. The guesses are removed, because they would match "preempted".
_GUESSES = re.compile(
    r"\(e\.g\. preemption, eviction\)|was preempted/died/restarted|has failed, got preempted, or crashed"
)


def classify(text: str, *, backend: str | None = None, before_steps: bool = False) -> DeathKind:
    """Return the class of an error; `other` if no row of the table matches. `backend`: JAX's, None if unknown.

    `text`, for an exception: the line `Type: message`, the lines below it and, if known, a last line `in FILE` with the
    raising file.
    """
    text = _GUESSES.sub("", text)
    for cause in CAUSES:
        counts = (before_steps or not cause.early) and cause.backend in (None, (backend or "").lower())
        if counts and re.search(cause.pattern, text, re.MULTILINE):
            return cause.kind
    return "other"


# classes of evictions that may explain another error (see `is_explained`)
EXPLAINING: frozenset[DeathKind] = frozenset({"preempted", "host_oom", "disk_full"})


def is_explained(kind: DeathKind, text: str) -> bool:
    """Whether an eviction in the same log can explain an error: `kind` is vague, or the error reports another death."""
    return kind in ("other", "killed", "timeout") or is_follower(text)


def is_follower(text: str) -> bool:
    """Whether an error only reports that another process died."""
    return bool(_FOLLOWERS.search(text))
