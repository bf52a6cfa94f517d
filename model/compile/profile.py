"""Turns profiles (XPlane) into JSON: the time of each instruction of each program, and Python's garbage collections.

    python -m model.compile.profile PROFILE.xplane.pb…

prints one line of JSON per profile. `modules`: program -> `runs`, each [begin, end] in ns, and `instructions`: name ->
ns per run, summed over its executions on all devices. An instruction has three times: from all runs, from every second
run, and from the other runs. The time of an execution is its minimum over the runs, because other load on the machine
only adds time. `collections`: [begin, duration] of each garbage collection in ns; `devices`: the number of devices.
"""

import bisect
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jax.profiler import ProfileData

VERSION = 2
COLLECTION = "garbage collection"  # name of the events that tasks/observe adds
_OF_JAX = re.compile(r"_xla_gc_callback$")  # JAX's own callback during a garbage collection
_MODULE_LINE, _OPS_LINE = "XLA Modules", "XLA Ops"  # lines in the plane of a TPU: programs, instructions
_CALL_NUMBER = re.compile(r"\(\d+\)$")  # end of the name of a program's event in `_MODULE_LINE`


class Execution(NamedTuple):
    """One execution of an instruction."""

    module: str  # the program
    run: str  # number of the program's run; empty if the profile has none
    device: str
    name: str  # of the instruction
    begin: float  # ns
    duration: float  # ns


def read_profile(path: str) -> dict[str, Any]:
    """Return the JSON object of a profile."""
    executed: list[Execution] = []
    collections: list[tuple[float, float]] = []
    for plane in ProfileData.from_file(path).planes:
        lines = list(plane.lines)
        if any(line.name == _MODULE_LINE for line in lines):
            executed += _read_tpu(plane.name, lines)
            continue
        for line in lines:
            for event in line.events:
                if event.name == COLLECTION or (_OF_JAX.search(event.name) and event.name.startswith("$")):
                    collections.append((event.start_ns, event.duration_ns))
                    continue
                stats = dict(event.stats)
                if "hlo_op" in stats and "hlo_module" in stats:
                    run, device = str(stats.get("run_id", "")), str(stats.get("device_ordinal", plane.name))
                    where = str(stats["hlo_module"]), run, device, str(stats["hlo_op"])
                    executed.append(Execution(*where, event.start_ns, event.duration_ns))
    devices = {one.device for one in executed}
    modules = {
        module: _summarise(_number_runs([one for one in executed if one.module == module]))
        for module in sorted({one.module for one in executed})
    }
    return {
        "version": VERSION,
        "devices": len(devices),
        "modules": modules,
        "collections": [list(one) for one in sorted(collections)],
    }


def _read_tpu(device: str, lines: Sequence[Any]) -> Iterator[Execution]:
    """Yield the executions in a TPU's plane. An instruction belongs to the program event that contains it."""
    runs = sorted(
        (event.start_ns, event.start_ns + event.duration_ns, _CALL_NUMBER.sub("", event.name), str(number))
        for line in lines
        if line.name == _MODULE_LINE
        for number, event in enumerate(line.events)
    )
    begins = [run[0] for run in runs]
    for line in lines:
        if line.name != _OPS_LINE:
            continue
        for event in line.events:
            place = bisect.bisect_right(begins, event.start_ns) - 1
            if place >= 0 and event.start_ns < runs[place][1]:
                name = event.name.partition(" = ")[0].lstrip("%")
                yield Execution(runs[place][2], runs[place][3], device, name, event.start_ns, event.duration_ns)


def _number_runs(executed: Sequence[Execution]) -> Sequence[Execution]:
    """Add run numbers if the events have none (GPUs): on a device, every run begins with the same instruction."""
    if any(one.run for one in executed):
        return executed
    numbered: list[Execution] = []
    runs: Counter[str] = Counter()
    firsts: dict[str, str] = {}
    for one in sorted(executed, key=lambda one: one.begin):
        if firsts.setdefault(one.device, one.name) == one.name:
            runs[one.device] += 1
        numbered.append(one._replace(run=str(runs[one.device])))
    return numbered


def _summarise(executed: Sequence[Execution]) -> dict[str, Any]:
    """Return the begin and end of one program's runs in order, and the times of its instructions."""
    begins: dict[str, float] = {}
    ends: dict[str, float] = {}
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in sorted(executed, key=lambda one: (one.device, one.begin)):
        begins[one.run] = min(begins.get(one.run, one.begin), one.begin)
        ends[one.run] = max(ends.get(one.run, 0.0), one.begin + one.duration)
        found[one.name][one.run].append(one.duration)
    order = sorted(begins, key=begins.__getitem__)
    return {
        "runs": [[begins[run], ends[run]] for run in order],
        "instructions": {name: _quickest([by_run[run] for run in order]) for name, by_run in found.items()},
    }


def _quickest(runs: Sequence[Sequence[float]]) -> list[float]:
    """Return an instruction's three times in ns (see above): from all runs, every second run, and the other runs.

    Omits runs that the begin or end of the profile cut off: they have another number of executions than most runs.
    """
    usual = Counter(map(len, runs)).most_common(1)[0][0]
    whole = [run for run in runs if len(run) == usual]
    return [sum(map(min, zip(*some, strict=True))) for some in (whole, whole[::2], whole[1::2] or whole)]


def main(argv: Sequence[str]) -> int:
    """Run the command line. Exit status: 0 printed, 2 a file is not a profile."""
    for name in argv:
        try:
            sys.stdout.write(json.dumps(read_profile(name)) + "\n")
        except (OSError, RuntimeError, ValueError) as error:
            sys.stderr.write(f"{name}: cannot be read as a profile: {error}\n")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
