"""Finds the lines of MaxText's dialect that are no step lines: a table of patterns, whatever the white space between.

No pattern relies on line breaks, because some logs have lost them: a value ends where the next record starts.
"""

import re
from collections.abc import Iterator, Sequence

from tasks.scrape.prefix import ABSL
from tasks.scrape.window import Window

# where free text ends: at a line break, at the next record, at a line that has no prefix
_NEXT = (
    rb"\n|\Z|%s|Config param |System Information: |Num_devices: |completed step|XPK End:|EXIT_CODE=|"
    rb"Traceback \(most |Per train step:" % ABSL
)
_END = rb"(?=\s*(?:%s))" % _NEXT
_NUMBER = rb"(\d+(?:\.\d+)?)"
_PATH = rb"[^\s\]][^\n\]]{0,2000}?"
_SRUN = rb"\bsrun: error: [^\s:]{1,200}: tasks? [\d,\- ]{1,200}: "
_DATE = rb"(\w{3} \w{3} +\d+ \d\d:\d\d:\d\d(?: [AP]M)? \w+ \d{4})"

_PATTERNS = {
    "start": rb"XPK Start: " + _DATE,
    "end": rb"XPK End: " + _DATE,
    "exit_code": rb"EXIT_CODE=(\d{1,3})(?!\d)",
    "jax": rb"System Information: Jax Version: (\S+)",
    "jaxlib": rb"System Information: Jaxlib Version: (\S+)",
    "backend": rb"System Information: Jax Backend: ([^\n]*?)(?=\s*(?:TFRT |Built on |%s))" % _NEXT,
    "device_kind": rb"TFRT (TPU ?v?\d\w*(?: lite)?)",
    "libtpu": rb"Built on (\w{3} +\d{1,2} \d{4}) \d\d:\d\d:\d\d \(\d{1,15}\) (cl/\d{1,15})",
    "devices": rb"Num_devices: (\d+), shape (\([\d, ]*\)|OrderedDict\([^\n]{0,1000}?\)(?=\s|\Z)|"
    rb"\{[^}\n]{0,1000}\})",
    "process": rb"\[process=(\d+)\]",
    "memory": rb"Total (?:estimated )?memory size: %s GB, (?:estimated )?[Oo]utput size: %s GB, "
    rb"(?:estimated )?[Tt]emp size: %s GB, (?:estimated )?[Aa]rgument size: %s GB"
    rb"(?:, (?:[Ee]stimated )?[Hh]ost temp size: %s GB)?" % ((_NUMBER,) * 5),
    "device_memory": rb"Using \(GB\) %s / %s \(%s%%\) on ([^\s(]+)" % ((_NUMBER,) * 3),
    "no_memory": rb"Memstats unavailable, error: ([^\n]*?)" + _END,
    "parameters": rb"number parameters: (%s (billion|million|thousand|trillion))" % _NUMBER,
    "array": rb"Shape:\s+(\w+)\[([\d,]*)\]\S*(?:\s+Logical:\s+([^\n]{1,400}?))?\s+Physical:\s+"
    rb"(\((?:[^()\n]|\([^()\n]*\))*\)|\S+)",
    "flops": rb"Per train step:\s+Total TFLOPs: %s(?:\s+split as %s%% learnable weight flops)?"
    rb"(?:\s+and %s%% attention flops)?" % ((_NUMBER,) * 3),
    "config": rb"Config param (\w+): ?([^\n]*?)" + _END,
    "saving": rb"Saving checkpoint at step (\d+)",
    "primary_host": rb"CheckpointManager created, +primary_host=(\d+|None)\b",
    "save_announced": rb"(?:Started an asynchronous checkpoint save for|[Ss]aved a checkpoint at) step (\d+)",
    "save_path": rb"(?:Started (?:async saving checkpoint to|saving checkpoint to|save checkpoint @)|"
    rb"Async saving checkpoint to|Saving (?:item|checkpoint) to) (%s/(\d+))\.(?=\s|\Z)" % _PATH,
    "save_blocked": rb"Finished blocking save(?: in %s seconds\. Continuing (?:save @|to save asynchronously to)|"
    rb"\. Time taken: %ss\. Continuing background save to) %s/(\d+)\.(?=\s|\Z)" % (_NUMBER, _NUMBER, _PATH),
    "save_event": rb"\{'step': (\d+), 'event_type': 'save', 'directory': '([^'\n\]]*)'",
    "save_arrays": rb"Scheduling D2H of (\d+) prioritized jax\.Array",
    "save_background": rb"Background save thread done\.(?: Time taken: %ss\.)?|"
    rb"Commit thread error check finished successfully()" % _NUMBER,
    "save_total": rb"Finished (?:(?:save|asynchronous save) \(blocking \+ background\) in %s seconds (?:@|to) "
    rb"%s/(\d+)(?=\.?(?:\s|\Z))|async_save \(blocking \+ background\)\. Time taken: %ss\. directory="
    rb"%s/(\d+)(?=\s|\Z))" % (_NUMBER, _PATH, _NUMBER, _PATH),
    "save_synchronous": rb"(?:\[sync\] Finished save in %s seconds @|Finished synchronous save in %s seconds to) "
    rb"%s/(\d+)(?=\.?(?:\s|\Z))" % (_NUMBER, _NUMBER, _PATH),
    "save_committed": rb"Finished saving checkpoint (?:\(finalized tmp dir\) )?to `([^`\n\]]*/(\d+))`",
    "save_hosts": rb"Validated ArrayMetadata from all (\d+) hosts",
    "save_finalized": rb"\[step=(\d+)\] CheckpointManager Save Finalize is done on all hosts",
    "save_failed": rb"in background save thread, directory: %s/(\d+)(?=\s|\Z)" % _PATH,
    "save_waited": rb"Waiting for previous save to complete took %s seconds" % _NUMBER,
    "wait_begins": rb"\[wait_until_finished\] Waiting for Save Finalize thread",
    "wait_ends": rb"\[wait_until_finished\] Done waiting for Save Finalize thread",
    "restore_asked": rb"restoring from this run's directory step (\d+)|Restoring at step (\d+)\.|"
    rb"restoring step=(\d+) from (local|persistent) checkpoint",
    "restore_from": rb"(restoring params from|Loading full state from path:|restoring full state from) (%s)(?=\s|\Z)"
    % _PATH,
    "restore_path": rb"(?:Restoring (?:checkpoint|item) from|Started (?:load|restore) checkpoint @) (%s)"
    rb"\.(?=\s|\Z)" % _PATH,
    "restore_done": rb"Finished (?:restoring checkpoint in %s seconds from (%s)\.|(?:load|restore) in %s seconds @ "
    rb"(%s)|restoring checkpoint from (%s)\.)(?=\s|\Z)" % (_NUMBER, _PATH, _NUMBER, _PATH, _PATH),
    "restore_event": rb"\{'step': (\d+), 'event_type': 'restore', 'directory': '([^'\n\]]*)'",
    "profiler": rb"Profiler session (?:started|collecting data|tear down)\.",
    "eval_start": rb"Starting eval after train step (\d+)",
    "eval_step": rb"Completed eval step:? (\d+)((?:, [^\s:=,][^:=,\n]*(?:: |=)[^\s,]+)*)",
    "eval": rb"(?:Completed eval after train step|eval metrics after step:|[Aa]verage loss after step=) ?(\d+)"
    rb"((?:[:,] [^\s:=,][^:=,\n]*=(?:[\w.]+\([^()\n]*\)|[^\s,]+))*)",
    # a notebook prints the exception's name before it, and no colon
    "traceback": rb"Traceback \(most recent call last\)(?::|(?=[ \t]*\r?\n))",
    "aborted": rb"(Aborting training due to (?:NaN|Inf) loss\.)",
    # absl, and absl before it knows the time zone
    "fatal": rb"F\d{4} \d\d:\d\d:(?:\d\d|\d{9,11})\.\d{6} +\d+ [\w.+-]+:\d+\] ?([^\n]*?)" + _END,
    # TSL: `2025-04-05 18:39:10.838153: F external/xla/xla/pjrt/distributed/client.h:80] …`
    "fatal_tsl": rb": F +(?:\d+ +)?[\w./+-]+:\d+\] ?([^\n]*?)" + _END,
    "fatal_python": rb"Fatal Python error: ([^\n]*?)" + _END,
    "fatal_cpp": rb"(terminate called (?:after throwing an instance of '[^'\n]{1,200}'|without an active exception)|"
    rb"LLVM ERROR: [^\n]{1,400})",
    "stopped": rb"Training stopped: ([^\n]*?)" + _END,
    "usage": rb"FATAL Flags parsing error:\s+([^\n]*?)%s|(?m:^)(?!srun|slurmstepd|sbatch|salloc)"
    rb"[\w./-]{1,100}: error: ([^\n]*?)%s" % (_END, _END),
    "signal": rb"\*\*\* (SIG[A-Z]+)(?: \(@0x[\da-f]+\))?(?:, see \S{1,80})? received by PID \d+[^\n]{0,200}|"
    rb"\bline \d+: +\d+ (Killed|Terminated|Aborted|Segmentation fault|Bus error)\b|(?m:^)(Killed|Terminated)(?m:\r?$)|"
    # SLURM; PALS and MPICH; Open MPI
    rb"%s(Killed|Terminated|Aborted|Segmentation fault|Bus error)\b|"
    rb"\brank \d{1,9} died from signal (\d{1,2})\b|\bexited on signal (\d{1,2}) \([A-Z]|"
    rb"\bCommand (?:terminated|killed) by signal (\d{1,2})\b" % _SRUN,
    "event": rb"(?:SIGTERM caught at|Preempted (?:to accommodate|by rule|in order to admit|by a pod)|EvictedDueTo\w+|"
    rb"PreemptionByScheduler|DeletionByTaintManager|TaintManagerEviction|EvictionByEvictionAPI|TerminationByKubelet|"
    rb"OOMKilled|[Oo]ut of memory: Kill(?:ed)? process|oom-kill|low on resource: (?:memory|ephemeral-storage)|"
    rb"ephemeral local storage usage exceeds|terminated in response to imminent node shutdown|SLICE_FAILURE_\w+|"
    rb"[Kk]illed due to (?:memory pressure|the node running low on memory)|A worker died or was killed while executing|"
    rb"active (?:on the node )?longer than (?:the )?specified deadline|"
    rb"[Mm]aintenance [Ee]vent|\b[Pp]reemption (?:notice|signal|event)|DUE TO (?:PREEMPTION|TIME LIMIT|JOB REQUEUE|"
    rb"NODE FAILURE)|%sOut Of Memory|"
    rb"\b(?:[Ii]nstance|[Nn]ode|VM|[Ww]orker|TPU|[Pp]od|[Jj]ob|[Ww]orkload) "
    rb"(?:was|has been|got) (?:preempted|evicted))[^\n]*?" % _SRUN + _END,
}
ANCHORS = {name: re.compile(pattern) for name, pattern in _PATTERNS.items()}
# one of these stands in everything that an anchor matches
_LITERALS = (
    rb"XPK |EXIT_CODE=|System Information|TFRT|Built on |Num_devices|\[process=|memory size|Using \(GB\)|Memstats una|"
    rb"number para|Shape:|Per train|Config param|checkpoint|save|ArrayMetadata|CheckpointManager|estor|Commit thread|"
    rb"Loading full|Finished|Profiler|Scheduling D2H|Starting eval|Completed eval|eval metrics|verage loss|"
    rb"Traceback|Aborting|\bF\d{4} |\d: F |Fatal Python|terminate called|LLVM ERROR|Training stopped|: error: |FATAL F|"
    rb"\*\*\* SIG|Killed|Terminated|Aborted|Segmentation|Bus error|[Pp]reempt|PREEMPT|[Ee]vict|[Mm]aintenance|"
    rb"SIGTERM|Taint|TerminationBy|oom-kill|low on res|SLICE_FAIL|DUE TO|from signal |on signal |by signal |"
    rb": Out Of Mem|Kill process|local storage|imminent node|specified dead|illed due to|"
    rb"A worker died"
)
_ANY = re.compile(_LITERALS)
# what cannot be there without one of these is not searched for: a pattern whose alternatives begin differently costs as
# much as ten that begin alike
_ONLY_WITH: dict[str, tuple[bytes, ...]] = {
    "save_path": (b"Started async sav", b"Started sav", b"Async saving", b"Saving item to", b"Saving checkpoint to"),
    "save_announced": (b"asynchronous checkpoint save", b"aved a checkpoint at"),
    "save_background": (b"save thread done", b"Commit thread error"),
    "save_synchronous": (b"[sync] Finished", b"synchronous save in"),
    "restore_asked": (b"estoring from this run", b"Restoring at step", b"restoring step="),
    "restore_from": (b"restoring params", b"full state from"),
    "restore_path": (b"Restoring ", b"Started load", b"Started restore"),
    "eval": (b"Completed eval after", b"eval metrics after", b"verage loss after"),
    "usage": (b": error: ", b"FATAL Flags"),
    "fatal_cpp": (b"terminate called", b"LLVM ERROR"),
    "signal": (
        b"*** SIG", b"Killed", b"Terminated", b"Aborted", b"Segmentation fault", b"Bus error", b"from signal ",
        b"on signal ", b" by signal ",
    ),
    "fatal_python": (b"Fatal Python",),
    "fatal_tsl": (b": F ",),
    "event": (
        b"SIGTERM caught", b"Preempt", b" preempted", b" evicted", b"Evict", b"Taint", b"OOMKilled", b"Killed process",
        b"Kill process", b"local storage usage", b"imminent node", b"specified deadline",
        b"illed due to ", b"A worker died",
        b"oom-kill", b"low on resource", b"SLICE_FAIL", b"aintenance ", b"reemption n", b"reemption s", b"reemption e",
        b"DUE TO ", b"TerminationBy", b": Out Of Memory",
    ),
}  # fmt: skip
LITERAL_WITHIN = 200  # bytes from the start of what matches
SHORT = 4096  # bytes below which it pays to look for any of them first

# what `print_non_trivial_mesh_axis` prints; only before the first step, where nothing else looks like it
MESH_AXIS = re.compile(
    rb"(?<=\s)(diloco|data|stage|fsdp|fsdp_transpose|sequence|context|context_usp_ulysses|context_autoregressive|tensor|"
    rb"tensor_transpose|tensor_sequence|expert|autoregressive|model|attn_dp|attn_dp_expert): (\d+)(?=\s)"
)
# a whole date, for logs that no XPK frame dates; it begins with letters, which are found without trying every place
_WHOLE_DATE = re.compile(rb"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d")


def find_date(data: bytes, begin: int, end: int) -> bytes | None:
    """The first whole date in data[begin:end]."""
    for match in _WHOLE_DATE.finditer(data, begin, end):
        if not data[max(0, match.start() - 1) : match.start()].isdigit():
            return match[0]
    return None


def find_named(names: Sequence[str], window: Window, begin: int) -> Iterator[tuple[str, re.Match[bytes]]]:
    """(name, match) of these anchors that start in data[begin:] and before the window's limit."""
    for name in names:
        if name not in _ONLY_WITH or any(window.data.find(text, begin) >= 0 for text in _ONLY_WITH[name]):
            yield from (
                (name, match) for match in ANCHORS[name].finditer(window.data, begin) if match.start() < window.limit
            )


def find_anchors(window: Window, begin: int, end: int) -> Iterator[tuple[str, re.Match[bytes]]]:
    """(name, match) of every anchor that starts in data[begin:end] and before the window's limit, ascending."""
    near = min(end, window.limit + LITERAL_WITHIN)
    if near - begin < SHORT and not _ANY.search(window.data, begin, near):
        return
    hits = [
        (match.start(), name, match)
        for name, pattern in ANCHORS.items()
        if name not in _ONLY_WITH or any(window.data.find(text, begin, end) >= 0 for text in _ONLY_WITH[name])
        for match in pattern.finditer(window.data, begin, end)
        if match.start() < window.limit
    ]
    hits.sort(key=lambda hit: hit[:2])
    for _, name, match in hits:
        yield name, match
