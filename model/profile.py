"""Turns profiles (XPlane) into JSON: how long each instruction of each program took in each run, and what the host did.

    python -m model.profile PROFILE.xplane.pb…

prints one line of JSON for each: `modules`: program -> `runs`, each [begin, end] in ns, and `instructions`: name -> ns
in each run, of all devices together; `collections`: [begin, ns] of each garbage collection; `devices`: how many.
"""

import bisect
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jax.profiler import ProfileData

VERSION = 1
COLLECTION = "garbage collection"  # as tasks/observe marks them
_OF_JAX = re.compile(r"_xla_gc_callback$")
_MODULE_LINE, _OPS_LINE = "XLA Modules", "XLA Ops"  # of a TPU's plane
_CALL_NUMBER = re.compile(r"\(\d+\)$")  # of a module's event there


class Executed(NamedTuple):
    """An instruction that ran."""

    module: str
    run: str
    device: str
    name: str
    begin: float  # ns
    duration: float  # ns


def read_profile(path: str) -> dict[str, Any]:
    """What a profile holds of programs and garbage collections."""
    executed: list[Executed] = []
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
                    executed.append(Executed(*where, event.start_ns, event.duration_ns))
    devices = {one.device for one in executed}
    modules = {
        module: _summarise([one for one in executed if one.module == module])
        for module in sorted({one.module for one in executed})
    }
    return {
        "version": VERSION,
        "devices": len(devices),
        "modules": modules,
        "collections": [list(one) for one in sorted(collections)],
    }


def _read_tpu(device: str, lines: Sequence[Any]) -> Iterator[Executed]:
    """A TPU's plane: its modules' events tell which run an instruction belongs to."""
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
                yield Executed(runs[place][2], runs[place][3], device, name, event.start_ns, event.duration_ns)


def _summarise(executed: Sequence[Executed]) -> dict[str, Any]:
    """The runs of one program in their order, and its instructions; runs without a number are one run."""
    begins: dict[str, float] = {}
    ends: dict[str, float] = {}
    for one in executed:
        begins[one.run] = min(begins.get(one.run, one.begin), one.begin)
        ends[one.run] = max(ends.get(one.run, 0.0), one.begin + one.duration)
    order = sorted(begins, key=begins.__getitem__)
    numbers = {run: number for number, run in enumerate(order)}
    instructions: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(order))
    for one in executed:
        instructions[one.name][numbers[one.run]] += one.duration
    return {"runs": [[begins[run], ends[run]] for run in order], "instructions": dict(instructions)}


def main(argv: Sequence[str]) -> int:
    """The command line: 0 printed, 2 a file is no profile."""
    for name in argv:
        try:
            sys.stdout.write(json.dumps(read_profile(name)) + "\n")
        except (OSError, RuntimeError, ValueError) as error:
            sys.stderr.write(f"{name}: is no profile that can be read: {error}\n")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
