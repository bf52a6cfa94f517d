"""Finds the lines of MaxText's dialect that are no step lines: a table of patterns, whatever the white space between.

No pattern relies on line breaks, because some logs have lost them: a value ends where the next record starts.
"""

import re
from collections.abc import Iterator

from tasks.scrape.prefix import ABSL
from tasks.scrape.window import Window

# where free text ends: at a line break, at the next record, at a line that has no prefix
_NEXT = (
    rb"\n|\Z|%s|Config param |System Information: |Num_devices: |completed step|XPK End:|EXIT_CODE=|"
    rb"Traceback \(most |Per train step:" % ABSL
)
_END = rb"(?=\s*(?:%s))" % _NEXT
_NUMBER = rb"(\d+(?:\.\d+)?)"
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
    "devices": rb"Num_devices: (\d+), shape (\([\d, ]*\)|OrderedDict\([^\n]*?\)(?=\s|\Z)|\{[^}\n]*\})",
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
    "save_announced": rb"(?:Started an asynchronous checkpoint save for|[Ss]aved a checkpoint at) step (\d+)",
    "save_path": rb"Started (?:async saving checkpoint to|save checkpoint @) (\S[^\n\]]{0,2000}?/(\d+))\.(?=\s|\Z)",
    "save_blocked": rb"Finished blocking save(?: in %s seconds\. Continuing save @|\. Time taken: %ss\. "
    rb"Continuing background save to) \S[^\n\]]{0,2000}?/(\d+)\.(?=\s|\Z)" % (_NUMBER, _NUMBER),
    "save_event": rb"\{'step': (\d+), 'event_type': 'save', 'directory': '([^'\n\]]*)'",
    "save_arrays": rb"Scheduling D2H of (\d+) prioritized jax\.Array",
    "save_background": rb"Background save thread done\. Time taken: %ss\." % _NUMBER,
    "save_committed": rb"Finished saving checkpoint \(finalized tmp dir\) to `([^`\n\]]*/(\d+))`",
    "eval_step": rb"Completed eval step: (\d+)((?:, [^\s:=,][^:=,\n]*(?:: |=)[^\s,]+)*)",
    "eval": rb"(?:Completed eval after train step|eval metrics after step:) ?(\d+)((?:, [^\s:=,][^:=,\n]*=[^\s,]+)*)",
    "traceback": rb"Traceback \(most recent call last\):",
    "aborted": rb"(Aborting training due to (?:NaN|Inf) loss\.)",
    "fatal": rb"F\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [\w.+-]+:\d+\] ?([^\n]*?)" + _END,
    "fatal_python": rb"Fatal Python error: ([^\n]*?)" + _END,
    "fatal_cpp": rb"(terminate called (?:after throwing an instance of '[^'\n]{1,200}'|without an active exception)|"
    rb"LLVM ERROR: [^\n]{1,400})",
    "stopped": rb"Training stopped: ([^\n]*?)" + _END,
    "usage": rb"FATAL Flags parsing error:\s+([^\n]*?)%s|(?m:^)[\w./-]{1,200}: error: ([^\n]*?)%s" % (_END, _END),
    "signal": rb"\*\*\* (SIG[A-Z]+) received by PID \d+[^\n]{0,200}|"
    rb"\bline \d+: +\d+ (Killed|Terminated|Aborted|Segmentation fault|Bus error)\b|(?m:^)(Killed|Terminated)(?m:\r?$)",
    "event": rb"(?:SIGTERM caught at|Preempted (?:to accommodate|by rule|in order to admit|by a pod)|EvictedDueTo\w+|"
    rb"PreemptionByScheduler|DeletionByTaintManager|TaintManagerEviction|EvictionByEvictionAPI|TerminationByKubelet|"
    rb"OOMKilled|Out of memory: Killed process|oom-kill|low on resource: memory|SLICE_FAILURE_\w+|"
    rb"(?i:maintenance event)|(?i:\bpreemption (?:notice|signal|event))|DUE TO (?:PREEMPTION|TIME LIMIT)|"
    rb"(?i:\b(?:instance|node|VM|worker|TPU|pod|job|workload) (?:was|has been|got) (?:preempted|evicted)))[^\n]*?"
    + _END,
}
ANCHORS = {name: re.compile(pattern) for name, pattern in _PATTERNS.items()}
# one of these stands in everything that an anchor matches
_LITERALS = (
    rb"XPK |EXIT_CODE=|System Information|TFRT|Built on |Num_devices|\[process=|memory size|Using \(GB\)|Memstats una|"
    rb"number para|Shape:|Per train|Config param|checkpoint|save|Scheduling D2H|Completed eval|eval metrics|"
    rb"Traceback|Aborting|\bF\d{4} |Fatal Python|terminate called|LLVM ERROR|Training stopped|: error: |FATAL Flags|"
    rb"\*\*\* SIG|Killed|Terminated|Aborted|Segmentation|Bus error|(?i:preempt|evict|maintenance)|SIGTERM|Taint|"
    rb"TerminationBy|oom-kill|low on res|SLICE_FAIL|DUE TO"
)
_ANY = re.compile(_LITERALS)
LITERAL_WITHIN = 200  # bytes from the start of what matches
SHORT = 4096  # bytes below which it pays to look for any of them first

# what `print_non_trivial_mesh_axis` prints; only before the first step, where nothing else looks like it
MESH_AXIS = re.compile(
    rb"(?<=\s)(diloco|data|stage|fsdp|fsdp_transpose|sequence|context|context_usp_ulysses|context_autoregressive|tensor|"
    rb"tensor_transpose|tensor_sequence|expert|autoregressive|model|attn_dp|attn_dp_expert): (\d+)(?=\s)"
)
# a whole date, for logs that no XPK frame dates
WHOLE_DATE = re.compile(rb"(?<!\d)(20\d\d-\d\d-\d\d \d\d:\d\d:\d\d)")


def find_anchors(window: Window, begin: int, end: int) -> Iterator[tuple[str, re.Match[bytes]]]:
    """(name, match) of every anchor that starts in data[begin:end] and before the window's limit, ascending."""
    near = min(end, window.limit + LITERAL_WITHIN)
    if near - begin < SHORT and not _ANY.search(window.data, begin, near):
        return
    hits = [
        (match.start(), name, match)
        for name, pattern in ANCHORS.items()
        for match in pattern.finditer(window.data, begin, end)
        if match.start() < window.limit
    ]
    hits.sort(key=lambda hit: hit[:2])
    for _, name, match in hits:
        yield name, match
