"""Patterns of the lines that may show a run's death, and the kind of finding that each becomes. Key: pattern name."""

import signal
from contextlib import suppress

from tasks.scrape.prefixes import END

_SRUN = rb"\bsrun: error: [^\s:]{1,200}: tasks? [\d,\- ]{1,200}: "
_SIGNAL = rb"(?:Killed|Terminated|Aborted|Segmentation fault|Bus error)"

# in the logs of every trainer
DEATHS = {
    "exit_code": rb"EXIT_CODE=(\d{1,3})(?!\d)",
    # a notebook prints the exception's name before it, and no colon after it
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
# in the logs of JAX programs
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
# in logs that several ranks under one launcher write
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
# pattern name → (form, type) of the `Found`
NOTED = {
    "aborted": ("stop", "SystemExit"), "stopped": ("stop", "StopTraining"), "usage": ("usage", "ArgumentError"),
    "fatal": ("fatal", "Fatal"), "fatal_tsl": ("fatal", "Fatal"), "fatal_cpp": ("fatal", "Fatal"),
    "fatal_python": ("fatal", "Fatal Python error"), "watchdog": ("fatal", "NCCL"), "memory_fault": ("fatal", "GPU"),
    "slurm": ("fatal", "slurmstepd"), "slurm_exit": ("exit", "srun"),
}  # fmt: skip
_SAID = {"Killed": "SIGKILL", "Terminated": "SIGTERM", "Aborted": "SIGABRT", "Segmentation fault": "SIGSEGV",
         "Bus error": "SIGBUS"}  # fmt: skip


def signal_name(said: str) -> str:
    """Return the signal's name: `SIGKILL` for `Killed` or `9`; unknown words are returned unchanged."""
    if said.isascii() and said.isdigit():
        with suppress(ValueError):  # not a signal number on this system
            return signal.Signals(int(said)).name
        return f"signal {said}"
    return _SAID.get(said, said)
