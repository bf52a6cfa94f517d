"""Notes which lines of a trainer's own files this process executes, and which ways its changed conditions go.

By `sys.monitoring` (Python 3.12): each line's event is switched off after its first hit, so the code then runs at full
speed. Imports only the standard library, because it starts before the trainer imports anything.
"""

import atexit
import dis
import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

FILE = "ran-{pid}.json"  # one file per process of the trainer
_TOOLS = (3, 4, 2, 1, 5, 0)  # ids of tools; 3 and 4 have no reserved use
_LIBRARIES = ("site-packages", "dist-packages")


class RanLines:
    """Watches this process. Files are named by their paths below `root`, with slashes."""

    def __init__(self, root: str, changed: list[str], folder: str):
        """root: the trainer's checkout. changed: files whose conditions are watched, too. folder: for the result."""
        self.root, self.folder, self.changed = os.path.realpath(root) + os.sep, folder, frozenset(changed)
        self.names: dict[str, str | None] = {}  # file name of code → path below the root; None: outside of it
        self.lines: defaultdict[str, set[int]] = defaultdict(set)
        self.functions: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
        # file → (line, offset of the condition in its code) → the ways that it went
        self.ways: defaultdict[str, defaultdict[tuple[int, int], set[bool]]] = defaultdict(lambda: defaultdict(set))
        self.jumps: dict[CodeType, dict[int, tuple[int, int, bool]]] = {}  # offset → (line, next offset, jumps if)
        self.opened: set[str] = set()
        # Whether Python runs in the host's loop; None: nobody asks, as in a run whose times are judged. What a line of
        # the host gives the steps is seen as far as steps are recorded; what a traced line computes is in the program.
        self.in_loop: Callable[[], bool] | None = None
        self.host: defaultdict[str, set[int]] = defaultdict(set)  # file → lines of the host's loop
        self.problem = ""
        self.pid = os.getpid()

    def begin(self) -> None:
        """Start to watch; without `sys.monitoring`, or a free id of a tool, only the problem is noted."""
        if not hasattr(sys, "monitoring"):
            self.problem = f"Python {sys.version_info[0]}.{sys.version_info[1]} has no sys.monitoring (3.12 has)"
            return
        monitoring: Any = sys.monitoring
        free = [tool for tool in _TOOLS if monitoring.get_tool(tool) is None]
        if not free:
            self.problem = "other tools use all of Python's monitoring"
            return
        self.tool, events = free[0], monitoring.events
        monitoring.use_tool_id(self.tool, "maxview")
        for event, act in ((events.PY_START, self.start), (events.LINE, self.line), (events.BRANCH, self.branch)):
            monitoring.register_callback(self.tool, event, act)
        monitoring.set_events(self.tool, events.PY_START)
        if any(not name.endswith(".py") for name in self.changed):
            sys.addaudithook(self.audit)

    def name(self, file: str) -> str | None:
        """Return a file's path below the root; None for files outside of it, and for installed packages."""
        if file not in self.names:
            path = os.path.realpath(file)
            below = path[len(self.root) :] if path.startswith(self.root) else ""
            is_own = below and not any(part in _LIBRARIES for part in below.split(os.sep))
            self.names[file] = below.replace(os.sep, "/") if is_own else None
        return self.names[file]

    def start(self, code: CodeType, _offset: int) -> Any:
        """Watch the lines of a function, and its conditions if its file is changed."""
        monitoring: Any = sys.monitoring
        if (name := self.name(code.co_filename)) is not None:
            self.functions[name].add((code.co_qualname, code.co_firstlineno))
            events = monitoring.events.LINE | (monitoring.events.BRANCH if name in self.changed else 0)
            monitoring.set_local_events(self.tool, code, events)
        return monitoring.DISABLE

    def line(self, code: CodeType, number: int) -> Any:
        """Note an executed line; one of a changed file until it was seen in the host's loop."""
        name = self.names[code.co_filename] or ""
        self.lines[name].add(number)
        if self.in_loop is not None:
            if self.in_loop():
                self.host[name].add(number)
            elif name in self.changed:
                return None
        return sys.monitoring.DISABLE

    def branch(self, code: CodeType, offset: int, destination: int) -> Any:
        """Note which way a condition went, until it has gone both."""
        disable = sys.monitoring.DISABLE
        if code not in self.jumps:
            self.jumps[code] = dict(find_conditions(code))
        found = self.jumps[code].get(offset)
        if found is None:  # the end of a loop
            return disable
        line, following, jumps_if = found
        ways = self.ways[self.names[code.co_filename] or ""][line, offset]
        ways.add(jumps_if if destination != following else not jumps_if)
        return disable if len(ways) == 2 else None

    def audit(self, event: str, words: tuple[Any, ...]) -> None:
        """Note the changed files that are opened and are not Python's."""
        if event == "open" and isinstance(words[0], str) and (name := self.name(words[0])) in self.changed:
            self.opened.add(str(name))

    def write(self) -> None:
        """Write the result. A forked process has the lines of its parent, too."""
        ways = {
            file: [[*place, sorted(seen)] for place, seen in sorted(found.items())] for file, found in self.ways.items()
        }
        found = {
            "lines": {file: sorted(lines) for file, lines in self.lines.items()},
            "functions": {file: sorted(names) for file, names in self.functions.items()},
            "ways": ways,
            "host": {file: sorted(lines) for file, lines in self.host.items()},
            "opened": sorted(self.opened),
            "problem": self.problem,
        }
        path = os.path.join(self.folder, FILE.format(pid=os.getpid()))
        with open(f"{path}.tmp", "w", encoding="utf-8") as file:
            json.dump(found, file)
        os.replace(f"{path}.tmp", path)


def find_conditions(code: CodeType) -> Any:
    """Yield for each conditional jump of a function: offset → (line, offset of the next instruction, jumps if).

    "jumps if" is the truth of the condition that makes it jump. Jumps that compare with None count as conditions.
    """
    instructions = list(dis.get_instructions(code))
    lines = {offset: line for begin, end, line in code.co_lines() if line for offset in range(begin, end, 2)}
    for one, following in zip(instructions, [*instructions[1:], None], strict=True):
        if "JUMP_IF" in one.opname and following is not None:
            kind = one.opname.rpartition("JUMP_IF_")[2]
            yield one.offset, (lines.get(one.offset, 0), following.offset, kind in ("TRUE", "NONE"))


WATCHING: list[RanLines] = []  # at most one: of this process


def begin(settings: dict[str, Any], folder: str) -> None:
    """Watch this process, if the recorder's settings name a checkout. The result is written when it ends."""
    root = settings.get("root")
    if not root:
        return
    watch = RanLines(root, settings.get("changed") or [], folder)
    watch.begin()
    WATCHING.append(watch)
    atexit.register(watch.write)


def watch_host(in_loop: Callable[[], bool]) -> None:
    """Note which lines run in the host's loop. in_loop: whether Python is there."""
    for watch in WATCHING:
        watch.in_loop = in_loop


def begin_loop() -> None:
    """Note each line once more: the host's loop begins. Lines that ran before it are off.

    The calls around it belong to it, because they give it its settings.
    """
    for watch in WATCHING:
        if watch.problem:
            continue
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            if (name := watch.name(frame.f_code.co_filename)) is not None:
                watch.host[name].add(frame.f_lineno)
            frame = frame.f_back
        sys.monitoring.restart_events()


def write() -> None:
    """Write the result now: before a process ends without its exit handlers."""
    for watch in WATCHING:
        watch.write()
