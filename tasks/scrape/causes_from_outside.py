"""Texts that say what the machine did to a run: memory that ran out, and evictions; each with its source.

What is certain comes before what is likely: memory before the checkpoint in whose course it ran out, a preemption
before the connections that broke by it.
"""

from tasks.scrape.cause import JAX, KUBERNETES, MAXTEXT, PYTHON, XLA, Cause, cause

FROM_OUTSIDE: tuple[Cause, ...] = (
    # on a CPU backend the device's memory is the host's
    cause("host_oom", r"RESOURCE_EXHAUSTED: .*[Oo]ut of memory|[Oo]ut of memory allocating \d+", XLA, on="cpu"),
    # XLA for TPU, at compile time: "Ran out of memory in memory space hbm. Used 21.95G of 15.48G hbm."
    cause(
        "device_oom",
        r"[Rr]an out of memory in memory space \w+|Exceeded \w+ capacity by",
        "https://github.com/LargeWorldModel/LWM/issues/60",
    ),
    # the libtpu of JAX 0.10: "… the total memory required for HLO temporaries (44.00G) exceeds available HBM (31.25G)."
    cause("device_oom", r"[Rr]an out of memory on HBM|exceeds available HBM", f"{JAX}/issues"),
    # of 2026 with a code; before it starts, of what can never fit
    cause("device_oom", r"CompileTime\w*Oom\b", "https://github.com/vllm-project/tpu-inference/pull/3194"),
    cause("device_oom", r"unlikely to have enough memory\. Requires", f"{JAX}/issues/7822"),
    # XLA for TPU, while it runs
    cause(
        "device_oom",
        r"[Aa]ttempting to (?:allocate|reserve) [\d.]+\w* *(?:at the \w+ of memory)?\. That was not possible",
        "https://github.com/google-deepmind/gemma/issues/85",
    ),
    # pinned host memory is the host's, whatever the backend
    cause("host_oom", r"(?i)(?:failed|unable) to allocate .{0,80}(?:pinned|host) memory", f"{JAX}/issues/23599"),
    # XLA for GPU; older JAX spells the status in words
    cause(
        "device_oom",
        r"(?:RESOURCE_EXHAUSTED|Resource exhausted): (?:.{0,200}: )?(?:[Oo]ut of memory|[Ff]ailed to allocate|"
        r"Error (?:allocating|loading)|Allocation (?:failure|type)|Attempting|XLA:TPU|TPU)|"
        r"Out of memory while trying to allocate",
        f"{JAX}/issues/13428",
    ),
    cause(
        "device_oom",
        r"CUDA_ERROR_OUT_OF_MEMORY|(?:CUDA|HIP|XPU|NPU) out of memory|(?:CUDA|HIP) (?:driver )?error: out of memory|"
        r"torch\.(?:cuda\.)?OutOfMemoryError|"
        r"CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED",
        "https://github.com/NovaSky-AI/SkyRL/issues/624",
    ),
    cause(
        "device_oom",
        r"Cuda failure (?:\d+ )?'out of memory'",
        "https://github.com/NVIDIA/nccl/blob/master/src/include/checks.h",
    ),
    cause(
        "device_oom",
        r"UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
        "https://github.com/oneapi-src/unified-runtime/blob/main/include/ur_api.h",
    ),
    cause(
        "host_oom",
        r"\AMemoryError|_ArrayMemoryError|std::bad_alloc|[Cc]annot allocate memory|\[Errno 12\]|"
        r"can't allocate memory: |DefaultCPUAllocator: not enough memory",
        f"{PYTHON}/exceptions.html#MemoryError",
    ),
    # what killed it, out of the kernel's and the kubelet's mouth
    cause(
        "host_oom",
        r"OOMKilled|[Oo]ut of memory: Kill(?:ed)? process|oom-kill|[Oo]om_kill event|low on resource: memory|"
        r"MemoryPressure|worker .{0,60}killed by signal: Killed|might be out of shared memory|"
        r"insufficient shared memory|workers are out of shared memory|: Out Of Memory\b|"
        r"killed due to (?:the node running low on memory|memory pressure)|NODE_OUT_OF_MEMORY",
        f"{KUBERNETES}/issues/112927",
    ),
    # the kubelet, where it evicts for the disk
    cause(
        "storage",
        r"low on resource: ephemeral-storage|ephemeral local storage usage exceeds",
        f"{KUBERNETES}/blob/master/pkg/kubelet/eviction/helpers.go",
    ),
    cause(
        "preempted",
        r"in response to imminent node shutdown",
        "https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/",
    ),
    # MaxText stops in good order; "Job is preempted." until 2026-06
    cause("preempted", r"Job is preempted|Job received termination signal \(SIGTERM\)", f"{MAXTEXT}/pull/4124"),
    cause(
        "preempted",
        r"Preempted (?:to accommodate|by rule|in order to admit|by a pod)|EvictedDueTo\w+|PreemptionByScheduler",
        "https://github.com/kubernetes-sigs/kueue/issues/7350",
    ),
    cause(
        "preempted",
        r"DeletionByTaintManager|TaintManagerEviction|DisruptionTarget|EvictionByEvictionAPI|TerminationByKubelet|"
        r"^Evicted$|\bEvicted\b.{0,200}\bpod\b",
        "https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions",
    ),
    cause("preempted", r"DUE TO JOB REQUEUE", "https://github.com/facebookincubator/submitit/issues/1708"),
    cause("preempted", r"SIGTERM caught at", f"{XLA}/tree/main/xla/tsl/distributed_runtime/preemption"),
    cause(
        "preempted",
        r"(?i:(?:instance|node|VM|worker|TPU|pod|job|task|workload)\b.{0,60}\b(?:was|been|got) (?:preempted|evicted))|"
        r"(?i:\bmaintenance event)|(?i:\bpreemption (?:notice|signal|event))|DUE TO PREEMPTION",
        "https://cloud.google.com/tpu/docs/maintenance-events",
    ),
)
