"""Causes of death: the classes of real error texts, each with its source."""

from typing import Any

import pytest

from tasks.records.log_reading import RunReading
from tasks.records.run_end import DEATH_WORDS, DeathKind, LogError
from tasks.scrape.death.causes import CAUSES, classify
from tasks.scrape.read_log import scrape_text

TRACEBACK = 'Traceback (most recent call last):\n  File "/x/{file}", line 3, in f\n    g()\n{error}'
HBM = "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. "
DIED_ELSEWHERE = (
    "Terminating process because the JAX distributed service detected fatal errors. This most likely indicates that "
    "another task died; see the other task logs for more details. absl::Status: UNAVAILABLE: The following tasks are "
    "unhealthy (stopped sending heartbeats): /job:jax_worker/replica:0/task:3 The tasks have crashed. Check the task "
    "logs for an earlier error, or scheduler events (e.g. preemption, eviction) to debug further."
)

# known messages of libraries and systems, as in their source
SAID: list[tuple[DeathKind, str]] = [
    # Linux, mm/oom_kill.c, today and before 4.20
    ("host_oom", "Memory cgroup out of memory: Killed process 17273 (python3) total-vm:515860kB, anon-rss:204432kB"),
    ("host_oom", "Out of memory: Kill process 1234 (python3) score 900 or sacrifice child"),
    # Kubernetes, pkg/kubelet: nodeshutdown, eviction, active_deadline
    ("preempted", "Pod was terminated in response to imminent node shutdown."),
    ("disk_full", "Evicted\nThe node was low on resource: ephemeral-storage. Threshold quantity: 10120387530"),
    ("disk_full", "Evicted\nPod ephemeral local storage usage exceeds the total limit of containers 10Gi."),
    ("timeout", "Pod was active on the node longer than the specified deadline"),
    # PyTorch and its libraries
    ("device_oom", "RuntimeError: CUDA error: out of memory"),
    ("device_oom", "torch.AcceleratorError: CUDA driver error: out of memory"),
    ("device_oom", "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.97 GiB total capacity"),
    ("device_oom", "RuntimeError: level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)"),
    (
        "device_oom",
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2251, unhandled cuda error\n"
        "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'",
    ),
    (
        "host_oom",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:75] . DefaultCPUAllocator: not enough memory: you tried",
    ),
    ("timeout", "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"),
    (
        "timeout",
        "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 1/2 clients joined.",
    ),
    ("killed", "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4711 got signal: 15"),
    ("killed", "subprocess.CalledProcessError: Command '['python3', 'a.py']' died with <Signals.SIGKILL: 9>."),
    ("nan", "AssertionError: Rank 11: found Inf in local grad norm in backward pass"),
    ("storage", "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"),
    # a disk that fills during a save: caffe2/serialize/inline_container.cc, NumPy's tofile and save, torch.save's file
    ("storage", "RuntimeError: [enforce fail at inline_container.cc:668] . unexpected pos 576 vs 470"),
    ("storage", "RuntimeError: PytorchStreamWriter failed writing file data/12: file write failed"),
    ("storage", "OSError: 1048576 requested and 524288 written"),
    ("disk_full", "OSError: Not enough free space to write 1048576 bytes after offset 12"),
    ("storage", "RuntimeError: basic_ios::clear: iostream error"),
    # DeepSpeed, runtime/fp16/loss_scaler.py
    ("nan", "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run."),
    # Orbax, and JAX's trees
    (
        "shape_mismatch",
        "ValueError: User-provided restore item and on-disk value metadata tree structures do not match: {'a': Diff(}",
    ),
    ("shape_mismatch", "ValueError: Dict key mismatch; expected keys: ['a']; dict: {'b': 1}."),
    ("storage", "ValueError: Found incomplete checkpoint at gs://b/r/checkpoints/0."),
    # nyu-dl/dl4marco-bert#19
    (
        "storage",
        "tensorflow.python.framework.errors_impl.PermissionDeniedError: Error executing an HTTP request: HTTP response "
        "code 403",
    ),
    ("storage", "botocore.exceptions.ClientError: An error occurred (403) when calling the HeadObject operation"),
    (
        "storage",
        "datasets.exceptions.DatasetNotFoundError: Dataset 'x' doesn't exist on the Hub or cannot be accessed.",
    ),
    # texts without a class that contain words of one: vllm-project/tpu-inference#2257, jax#17399
    (
        "other",
        "RuntimeError: Unable to initialize backend 'tpu': UNKNOWN: TPU initialization failed: open(/dev/vfio/0): "
        "Device or resource busy: Device or resource busy; Couldn't open iommu group /dev/vfio/0",
    ),
    (
        "other",
        "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: NCCL operation ncclAllReduce failed: unhandled cuda error",
    ),
    ("other", "RuntimeError: CUDA error: an illegal memory access was encountered"),
    ("other", "RuntimeError: DataLoader worker (pid(s) 3216) exited unexpectedly"),
    ("other", "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory"),
    (
        "other",
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address.",
    ),
]

# the first words are the exception's type; in the order of the classes
SEEN: list[tuple[DeathKind, str]] = [
    # MaxText 0.2.2 with pure_nnx=true
    ("not_implemented", "NotImplementedError: Pure NNX support has not been implemented yet."),
    (
        "not_implemented",
        "jaxlib.xla_extension.XlaRuntimeError: UNIMPLEMENTED: Pinned allocate buffer is not implemented",
    ),
    # LargeWorldModel/LWM#60, diffusers#856
    ("device_oom", f"jaxlib.xla_extension.XlaRuntimeError: {HBM}Used 21.95G of 15.48G hbm."),
    # ahead-of-time compilation for v6e with the libtpu of JAX 0.10.2, of two matmuls that are too large
    (
        "device_oom",
        "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO "
        "temporaries (44.00G) exceeds available HBM (31.25G).",
    ),
    # google-deepmind/gemma#85
    (
        "device_oom",
        "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate "
        "15.65G. That was not possible. There are 11.08G free.; (0x0x0_HBM0)",
    ),
    # pytorch/xla#3470
    (
        "device_oom",
        "RuntimeError: RESOURCE_EXHAUSTED: Attempting to reserve 6.48G at the bottom of memory. That was not "
        "possible. There are 6.78G free, 0B reserved, and 3.33G reservable.",
    ),
    # jax#13428, jax#788, mesh-transformer-jax#66
    (
        "device_oom",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
        "6291456 bytes.",
    ),
    (
        "device_oom",
        "RuntimeError: Resource exhausted: Failed to allocate request for 32.00MiB (33554432B) on device ordinal 0",
    ),
    ("device_oom", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
    # vllm-project/tpu-inference#3194, jax#7822
    (
        "device_oom",
        "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: E1001: CompileTimeScopedVmemOom: Ran out of scoped vmem: "
        "33.56M of 32.00M",
    ),
    (
        "device_oom",
        "RuntimeError: Compilation failure: Aborting compilation early because it's unlikely to have enough memory. "
        "Requires 3.47E, has 14.49G available.",
    ),
    # jax#29520
    (
        "not_implemented",
        "ValueError: Mosaic failed to compile TPU kernel: Not Implemented: The last dim size is not 128 in original "
        "base memref",
    ),
    # Ray: real-stanford/flingbot#11, WM-PO/WMPO#3
    (
        "host_oom",
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
    ),
    # ray-project/ray#47461
    ("killed", "A worker died or was killed while executing a task by an unexpected system error."),
    ("host_oom", "raylet: 2 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed"),
    # facebookresearch/mmf#441
    (
        "host_oom",
        "RuntimeError: DataLoader worker (pid 263230) is killed by signal: Bus error. It is possible that dataloader's "
        "workers are out of shared memory.",
    ),
    # SLURM: osc.edu, facebookincubator/submitit#1708, ZettaAI/zetta_utils#671
    ("host_oom", "srun: error: o0616: task 0: Out Of Memory"),
    ("preempted", "slurmstepd: *** JOB 608 ON n1 CANCELLED AT 2022-08-12T02:06:12 DUE TO JOB REQUEUE ***"),
    ("timeout", "slurmstepd: *** JOB 494583 ON n1 CANCELLED AT 2024-04-20T09:09:37 DUE TO TIME LIMIT ***"),
    ("killed", "slurmstepd: *** JOB 494583 ON n1 CANCELLED AT 2024-04-20T09:09:37 ***"),
    ("host_oom", "MemoryError"),
    (
        "host_oom",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.00 GiB for an array with shape (2147483648,)",
    ),
    ("host_oom", "OSError: [Errno 12] Cannot allocate memory"),
    # MaxText until and since pull request 4124
    ("preempted", "StopTraining: Job is preempted."),
    ("preempted", "StopTraining: Job received termination signal (SIGTERM)."),
    # Megatron with --exit-signal-handler
    ("preempted", "exiting program after receiving SIGTERM.] datetime: 2026-09-06 17:57:10"),
    # MaxText 0.2.4 with abort_on_nan_loss; jax#25701
    ("nan", "SystemExit: Aborting training due to NaN loss."),
    ("nan", "FloatingPointError: invalid value (nan) encountered in jit(f)"),
    # MaxText 0.2.4 with base_emb_dim=100 on fsdp 8; jax#27808; openpi#607
    ("shape_mismatch", "jax._src.sharding.IndivisibleError: Sharding NamedSharding(mesh=Mesh('fsdp': 8)) implies"),
    (
        "shape_mismatch",
        "ValueError: One of device_put args was given the sharding of NamedSharding(…), which implies that the "
        "global size of its dimension 0 should be divisible by 4, but it is equal to 19 (full shape: (19, 10, 32))",
    ),
    (
        "shape_mismatch",
        "AssertionError: Number of devices per slice 8 does not match the product of the ICI parallelism 3",
    ),
    (
        "shape_mismatch",
        "TypeError: dot_general requires contracting dimensions to have the same shape, got (64,) and (32,).",
    ),
    # google/orbax#648
    ("shape_mismatch", "ValueError: cannot reshape array of size 2 into shape (1,64)"),
    (
        "shape_mismatch",
        "flax.errors.ScopeParamShapeError: Initializer expected to generate shape (2, 3) but got shape (2, 4)",
    ),
    # google/orbax#924; MaxText 0.2.4 with base_output_directory=/proc/nowhere
    (
        "storage",
        'ValueError: NOT_FOUND: Error opening "zarr" driver: Metadata at local file "/a/.zarray" does not exist',
    ),
    ("storage", "FileNotFoundError: [Errno 2] No such file or directory: '/proc/nowhere'"),
    ("disk_full", "OSError: [Errno 28] No space left on device"),
    ("storage", "google.api_core.exceptions.Forbidden: 403 GET https://storage.googleapis.com/b: Permission denied"),
    ("storage", "StopTraining: Checkpointing failed. the bucket is gone"),
    # MaxText 0.2.4: a dot product with packing in DPO; an unknown key (the frame is in pyconfig.py)
    ("configuration", "pydantic_core._pydantic_core.ValidationError: 1 validation error for MaxTextConfig"),
    ("configuration", "ArgumentError: unrecognized arguments: --stps=3"),
    # AI-Hypercomputer/gpu-recipes#2, jax#23599
    (
        "timeout",
        "jax.errors.JaxRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register::0",
    ),
    (
        "timeout",
        "RuntimeError: UNAVAILABLE: Task /job:jax_worker/replica:0/task:0 heartbeat timeout. This indicates that the "
        "remote task has failed, got preempted, or crashed unexpectedly.",
    ),
    ("timeout", f"Fatal: {DIED_ELSEWHERE}"),
    ("timeout", "TimeoutError: Timed out after 600 seconds."),
    ("killed", "KeyboardInterrupt"),
    ("other", "KeyError: 'per_device_tflops'"),
    ("other", "jax.errors.JaxRuntimeError: INTERNAL: something"),
    ("other", "ModuleNotFoundError: No module named 'tunix'"),
]


def read(data: bytes) -> RunReading:
    return scrape_text(data, name="x").runs[0]


def error_of(data: bytes) -> LogError:
    error = read(data).error
    assert error is not None
    return error


@pytest.mark.parametrize(("kind", "text"), [*SEEN, *SAID])
def test_observed_texts(kind: DeathKind, text: str) -> None:
    assert classify(text) == kind


def test_every_class_has_words_and_every_pattern_a_source() -> None:
    assert {kind for kind, _ in SEEN} | {"cut_off"} == set(DEATH_WORDS)
    assert all(cause.source.startswith("https://") for cause in CAUSES)


def test_the_memory_of_a_cpu_is_the_hosts(logs: Any) -> None:
    # … train base.yml per_device_batch_size=200000 under `ulimit -v 9000000` (0.2.4, jaxlib 0.10.2)
    error = TRACEBACK.format(
        file="a.py",
        error="jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 111309819056 bytes.",
    )
    for backend, kind in (("cpu", "host_oom"), ("tpu", "device_oom")):
        line = logs.line(f"System Information: Jax Backend: {backend}")
        assert error_of(logs.framed(line, error, code=1)).kind == kind


def test_words_of_settings_count_before_the_first_step_only(logs: Any) -> None:
    error = TRACEBACK.format(file="attention_op.py", error="ValueError: Invalid num_kv_heads for GQA.")
    assert error_of(logs.framed(error, code=1)).kind == "configuration"
    assert error_of(logs.framed(*logs.steps(3), error, code=1)).kind == "other"


def test_the_raising_file_identifies_config_errors(logs: Any) -> None:
    # python -m maxtext.trainers.pre_train.train base.yml no_such_key=3 (0.2.4)
    error = TRACEBACK.format(file="maxtext/configs/pyconfig.py", error="ValueError: 'no_such_key' not there")
    assert error_of(logs.framed(error, code=1)).kind == "configuration"


def test_the_lines_below_a_message_belong_to_it(logs: Any) -> None:
    # … train base.yml use_dpo=true dataset_type=synthetic (0.2.4)
    text = (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for MaxTextConfig\n"
        "  Value error, DPO does not support packing. Set `packing=False`. [type=value_error]\n"
        "    For further information visit https://errors.pydantic.dev/2.13/v/value_error"
    )
    error = error_of(logs.framed(TRACEBACK.format(file="types.py", error=text), code=1))
    assert (error.kind, error.message) == ("configuration", "1 validation error for MaxTextConfig")
    assert error.detail.splitlines()[0].strip().startswith("Value error, DPO does not support packing.")
    assert len(error.detail.splitlines()) == 2


def test_a_rule_printed_by_jax_ends_a_message(logs: Any) -> None:
    # … base_num_query_heads=3 base_num_kv_heads=2 (0.2.4)
    text = (
        "ValueError: Invalid num_kv_heads for GQA.\n"
        + "-" * 20
        + "\nFor simplicity, JAX has removed its internal frames"
    )
    assert error_of(logs.framed(TRACEBACK.format(file="a.py", error=text), code=1)).detail == ""


def test_pydantic_errors_are_shown(logs: Any) -> None:
    # … train base.yml num_experts=4 num_experts_per_tok=2 decoder_block=mixtral (0.2.5)
    text = (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for MaxTextConfig\n"
        "  Value error, moe_mlp_dim must be positive for MoE models (num_experts > 1) [type=value_error]"
    )
    error = error_of(logs.framed(TRACEBACK.format(file="a.py", error=text), code=1))
    assert error.summary.startswith("wrong configuration: pydantic_core._pydantic_core.ValidationError: 1 validation")
    assert "moe_mlp_dim must be positive" in error.summary
