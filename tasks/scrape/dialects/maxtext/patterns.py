"""Patterns of MaxText's lines other than step lines. Most patterns need no line breaks, which some logs have lost."""

import re

from tasks.scrape.death.causes import DEATHS, JAX_DEATHS
from tasks.scrape.dialects.schedule import OPERATION
from tasks.scrape.prefixes import END, NEXT

_NUMBER = rb"(\d+(?:\.\d+)?)"
_PATH = rb"[^\s\]][^\n\]]{0,2000}?"
_DATE = rb"(\w{3} \w{3} +\d+ \d\d:\d\d:\d\d(?: [AP]M)? \w+ \d{4})"

_PATTERNS = {
    "start": rb"XPK Start: " + _DATE,
    "end": rb"XPK End: " + _DATE,
    "jax": rb"System Information: Jax Version: (\S+)",
    "jaxlib": rb"System Information: Jaxlib Version: (\S+)",
    "backend": rb"System Information: Jax Backend: ([^\n]*?)(?=\s*(?:TFRT |Built on |%s))" % NEXT,
    "device_kind": rb"TFRT (TPU ?v?\d\w*(?: lite)?)",
    "named_device": rb"System Information: Device Kind: ([^\n]*?)" + END,
    "libtpu": rb"Built on (\w{3} +\d{1,2} \d{4}) \d\d:\d\d:\d\d \(\d{1,15}\) (cl/\d{1,15})",
    "devices": rb"Num_devices: (\d+), shape (\([\d, ]*\)|OrderedDict\([^\n]{0,1000}?\)(?=\s|\Z)|"
    rb"\{[^}\n]{0,1000}\})",
    "process": rb"\[process=(\d+)\]",
    "memory": rb"Total (?:estimated )?memory size: %s GB, (?:estimated )?[Oo]utput size: %s GB, "
    rb"(?:estimated )?[Tt]emp size: %s GB, (?:estimated )?[Aa]rgument size: %s GB"
    rb"(?:, (?:[Ee]stimated )?[Hh]ost temp size: %s GB)?" % ((_NUMBER,) * 5),
    "device_memory": rb"Using \(GB\) %s / %s \(%s%%\) on ([^\s(]+)" % ((_NUMBER,) * 3),
    "no_memory": rb"Memstats unavailable, error: ([^\n]*?)" + END,
    "parameters": rb"number parameters: (%s (billion|million|thousand|trillion))" % _NUMBER,
    "array": rb"Shape:\s+(\w+)\[([\d,]*)\]\S*(?:\s+Logical:\s+([^\n]{1,400}?))?\s+Physical:\s+"
    rb"(\((?:[^()\n]|\([^()\n]*\))*\)|\S+)",
    "flops": rb"Per train step:\s+Total TFLOPs: %s(?:\s+split as %s%% learnable weight flops)?"
    rb"(?:\s+and %s%% attention flops)?" % ((_NUMBER,) * 3),
    "config": rb"Config param (\w+): ?([^\n]*?)" + END,
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
    "save_deleted": rb"Deleted step (\d+)\.(?=\s|\Z)|[Rr]enamed step (\d+) to ",
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
    # printed with JAX_LOG_COMPILES
    "compiling": rb"Compiling (?:jit\()?train_step\)? with global shapes and types [\[(]([^\n]{0,60000}?)[\])]\. "
    rb"Argument mapping",
    "profiler": rb"Profiler session (?:started|collecting data|tear down)\.",
    "eval_start": rb"Starting eval after train step (\d+)",
    "eval_step": rb"Completed eval step:? (\d+)((?:, [^\s:=,][^:=,\n]*(?:: |=)[^\s,]+)*)",
    "eval": rb"(?:Completed eval after train step|eval metrics after step:|[Aa]verage loss after step=) ?(\d+)"
    rb"((?:[:,] [^\s:=,][^:=,\n]*=(?:[\w.]+\([^()\n]*\)|[^\s,]+))*)",
    "operation": OPERATION,
    **DEATHS,
    **JAX_DEATHS,
}
PATTERNS = {name: re.compile(pattern) for name, pattern in _PATTERNS.items()}
