"""Texts in which programs and their libraries say why they stop; each with its source.

Words that any program may print (`must be`) count last, and only for Python's own errors before the first step, where
they come from whoever checks the settings.
"""

from tasks.scrape.cause import JAX, MAXTEXT, PYTHON, Cause, cause

FROM_WITHIN: tuple[Cause, ...] = (
    cause(
        "not_implemented",
        r"\A(?:\w+\.)*NotImplementedError|\bUNIMPLEMENTED: |\bUnimplemented: ",
        f"{PYTHON}/exceptions.html#NotImplementedError",
    ),
    cause("not_implemented", r"Mosaic failed to compile TPU kernel: (?i:not implemented)", f"{JAX}/issues/29520"),
    cause(
        "nan",
        r"due to (?:NaN|Inf) loss",
        f"{MAXTEXT}/blob/main/src/maxtext/common/metric_logger.py",
    ),
    cause(
        "nan",
        r"\A(?:\w+\.)*FloatingPointError|invalid value \((?:nan|inf)\)|(?i:\bloss (?:is|was|became) (?:nan|inf))|"
        r"found (?:NaN|Inf) in|Unexpected result (?:nan|inf)|(?i:\bnan (?:detected|found) in)",
        f"{JAX}/issues/25701",
    ),
    # fp16 whose gradients overflow at every scale
    cause(
        "nan",
        r"loss scale already at minimum",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/fp16/loss_scaler.py",
    ),
    # Orbax, and JAX's own trees: the checkpoint is of another model
    cause(
        "shape_mismatch",
        r"tree structures do not match|Dict key mismatch|Custom node type mismatch",
        f"{MAXTEXT}/pull/4099",
    ),
    cause(
        "shape_mismatch",
        r"IndivisibleError|(?:not|be) (?:evenly )?divisible by|does not evenly divide|axis sizes that are not",
        f"{JAX}/issues/27808",
    ),
    cause(
        "shape_mismatch",
        r"ScopeParamShapeError|[Ii]ncompatible shapes|[Ss]hape mismatch|[Mm]ismatched? (?:shapes?|sharding)|"
        r"[Ss]hapes? .{0,80}(?:must|do(?:es)?(?: not|n't)|not) (?:match|be equal|agree)|dot_general requires|"
        r"cannot reshape array of size|[Rr]equested shape: .{0,200}not compatible|got shapes? ",
        "https://github.com/google/orbax/issues/648",
    ),
    cause(
        "shape_mismatch",
        r"size mismatch for |shapes cannot be multiplied|size of tensor a \(",
        "https://github.com/pytorch/pytorch/blob/main/torch/nn/modules/module.py",
    ),
    cause(
        "shape_mismatch",
        r"does not match the product of the \S* ?parallelism|[Nn]umber of devices .{0,80}(?:match|product|mesh)",
        f"{MAXTEXT}/issues/30",
    ),
    cause(
        "shape_mismatch",
        r"ShardingTypeError|[Ss]harding .{0,200}(?:incompatible|implies|mismatch)|Received incompatible devices|"
        r"PartitionSpec .{0,200}(?:rank|axis|axes)",
        f"{JAX}/issues/15788",
    ),
    cause(
        "storage",
        r"google\.(?:api_core|cloud|auth)\.|\Abotocore\.exceptions\.|"
        r"Error executing an HTTP request: HTTP response code|\Agcsfs\.|storage\.googleapis\.com|"
        r"No such (?:object|bucket)|"
        r"does not have storage\.\w+\.\w+ access",
        "https://github.com/pangeo-data/pangeo/issues/176",
    ),
    cause(
        "storage",
        r"\A(?:\w+\.)*(?:FileNotFoundError|FileExistsError|PermissionError|IsADirectoryError|NotADirectoryError|"
        r"BlockingIOError)\b|\[Errno (?:2|5|13|17|20|21|28|30|107|116|121|122)\]|No space left on device|"
        r"Stale file handle|Read-only file system|Transport endpoint is not connected|Input/output error|"
        r"Disk quota exceeded",
        f"{PYTHON}/exceptions.html#os-exceptions",
    ),
    cause(
        "storage",
        r"Error (?:opening|reading|writing) |InvalidLayoutError|commit_success\.txt|DATA_LOSS: |"
        r"(?i:checkpoint .{0,80}(?:not found|does not exist|is corrupt))|[Ff]ound incomplete checkpoint",
        "https://github.com/google/orbax/issues/924",
    ),
    # what should have been read is not there, or is no longer whole: TensorFlow, the Hub, PyTorch, safetensors
    cause(
        "storage",
        r"\A(?:\w+\.)*(?:errors_impl\.(?:NotFoundError|PermissionDeniedError|DataLossError)|DatasetNotFoundError|"
        r"RepositoryNotFoundError|GatedRepoError|SafetensorError)\b|PytorchStreamReader failed",
        "https://github.com/tensorflow/tensorflow/issues/37132",
    ),
    cause("storage", r"Checkpointing failed", f"{MAXTEXT}/pull/1886"),
    cause(
        "timeout",
        r"DEADLINE_EXCEEDED|Deadline Exceeded|[Bb]arrier timed out",
        "https://github.com/AI-Hypercomputer/gpu-recipes/issues/2",
    ),
    cause("timeout", r"(?i:heartbeat timeout)|stopped sending heartbeats", f"{JAX}/issues/23599"),
    cause(
        "timeout",
        r"\A(?:\w+\.)*\w*Timeout\w*\b|longer than (?:the )?specified deadline|"
        r"DUE TO TIME LIMIT|ActiveDeadlineExceeded|DeadlineExceeded|(?i:\btimed out\b)|"
        r"[Ww]atchdog caught collective operation timeout|(?i:exceeded the (?:\w+ )?(?:deadline|time limit))",
        f"{PYTHON}/exceptions.html#TimeoutError",
    ),
    # SLURM says why where it was not a person
    cause(
        "timeout",
        r"CANCELLED AT \S+ DUE TO TIME LIMIT",
        "https://github.com/SchedMD/slurm/blob/master/src/slurmd/slurmstepd/req.c",
    ),
    cause("killed", r"CANCELLED AT \S+", "https://github.com/SchedMD/slurm/blob/master/src/slurmd/slurmstepd/req.c"),
    cause(
        "killed",
        r"\AKeyboardInterrupt|\A(?:SIGKILL|SIGTERM|SIGINT|SIGHUP)\b|\A(?:Killed|Terminated)\b|SIGTERM received by PID|"
        r"A worker died or was killed while executing|"
        r"\bgot signal: (?:2|9|15)\b|died with <Signals\.SIG(?:KILL|TERM|INT): |exit(?:ed with)? code -(?:9|15)\b",
        "https://github.com/pytorch/xla/issues/3947",
    ),
    cause(
        "configuration",
        r"\A(?:\w+\.)*(?:ValidationError|UnrecognizedFlagError|IllegalFlagValueError|ConfigError|ConfigurationError|"
        r"ConfigAttributeError|MissingMandatoryValue|ArgumentError|ParserError|ScannerError)\b|"
        r"FATAL Flags parsing error|unrecognized arguments",
        "https://errors.pydantic.dev/latest/v/value_error",
    ),
    # the last frame before the error is that of the code which reads the settings
    cause(
        "configuration",
        r"^in (?:pyconfig\w*|types|arguments|config\w*)\.py$|(?i:isn't in (?:the )?config|passed at the command line)",
        f"{MAXTEXT}/blob/main/src/maxtext/configs/pyconfig.py",
    ),
    cause(
        "configuration",
        r"\A(?:ValueError|AssertionError|KeyError|TypeError|RuntimeError): .*(?i:\bmust\b|\bshould be\b|\binvalid\b|"
        r"needs? to be|\bunsupported\b|\bnot supported\b|only supported|unknown|unrecogni[sz]ed|"
        r"\bnot (?:allowed|valid|in)\b|\bcannot be (?:used|set|combined)\b|\bplease (?:set|use|specify)\b|"
        r"is required|\bis removed\b)",
        f"{MAXTEXT}/blob/main/src/maxtext/configs/types.py",
        early=True,
    ),
)
