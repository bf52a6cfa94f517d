"""Records the first call of the training step, profiles calls if the settings say so, and ends the process.

The process runs an arm: one of the two compared versions of a trainer.
"""

import importlib.metadata
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from maxview_probe.observe import bits, jaxprs, ran_lines, read_files
from maxview_probe.observe import observation_files as files
from maxview_probe.observe.cycle import Cycle, NoCycle
from maxview_probe.observe.empty_program import empty
from maxview_probe.observe.evaluate_step import StepEvaluation
from maxview_probe.observe.find_cycle import find_cycle
from maxview_probe.observe.find_step import StepFinder
from maxview_probe.observe.front_end import FrontEnd
from maxview_probe.observe.jit_hook import ArgsKwargs, Bystander, Call, Mapped, in_trace, is_on_host
from maxview_probe.observe.loop_functions import LoopFunctions
from maxview_probe.observe.meaning import meanings_of
from maxview_probe.observe.observation_files import RecorderSettings
from maxview_probe.observe.other_arm import Draws, Replacement, have_common_keys
from maxview_probe.observe.profiling import Profiling
from maxview_probe.observe.stderr_lines import describe_error, print_on_stderr
from maxview_probe.observe.tape import Tape, install
from maxview_probe.observe.write_cycle import arguments_of, feeds_of, slot_names, write_cycle

FEEDING_CALLS = 3  # calls whose results are looked for among the arguments of the next one
MIN_BATCHES, MAX_BATCH_S = 3, 10.0
MIN_UPDATES, MAX_CALLS, MAX_CYCLE_S = (
    5,
    200,
    120.0,
)  # recorded for a loop of several functions, or of accumulated gradients
_PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "maxtext", "qwix", "aqtp", "libtpu")


class StepObserver(Bystander):
    """The `Recorder` of a process that was started only for the observation. It ends the process afterwards."""

    def __init__(self, settings: RecorderSettings):
        self.settings, self.finder = settings, StepFinder(settings.folder, settings.function)
        self.calls, self.skipped, self.busy = 0, 0, False
        self.compiled: Any = None
        self.front_end: FrontEnd | None = None
        self.own_run: Callable[..., Any] | None = None  # of the first call; another function compiles its program again
        self.is_whole = False  # whether this process holds all parts of the arguments
        self.jit = jax.jit
        self.record: dict[str, Any] = {"notes": []}
        self.own: dict[str, str | None] = {}  # replaced argument → digest of the value before
        self.profiling: Profiling | None = None
        self.results: list[Any] = []  # of the first call: as arguments of the second call they are the state
        self.batches_end = settings.batches  # the first call whose batch is not stored
        self.began = time.monotonic()
        self.loop: LoopFunctions | None = None  # from the first recorded call on, if the programs really run
        self.tape = Tape()
        self.moved: list[bool] = []  # whether the weights changed before each call from the second on
        self.weights: list[str] = []  # their digests before the last call
        self.is_enough = False  # whether all wanted calls were made; further ones only show the loop's cycle
        ran_lines.watch_host(lambda: self.calls > 0 and is_on_host())
        wanted = settings.runs and settings.profile is None and (settings.cycles or settings.evaluated is None)
        self.tape.problem = install(self.tape) if wanted else "not recorded"

    def prepare(self, function: Any) -> Any:
        if self.loop is not None and not self.busy:
            self.loop.note_jit(function)
        return function

    def wants(self, name: str) -> bool:
        return not self.busy and self.finder.may_be(name)

    def before_compile(self, name: str, closed: Any, lowered: Any) -> None:
        function = self.finder.function
        if not self.settings.runs and (name == function or jaxprs.is_step(name, closed.jaxpr)):
            with self.guarded("the program cannot be emptied"):
                if function in ("", name):
                    self.write_program(lowered)
                empty(lowered)

    def write_program(self, lowered: Any) -> None:
        """Write the lowered step, unless an earlier call has written it."""
        program = self.settings.folder / files.PROGRAM
        if not program.exists():
            files.write_packed(program, lowered.as_text(debug_info=True))

    def replace_arguments(self, name: str, args: Any, kwargs: Any) -> ArgsKwargs | None:
        return None

    def fail(self, name: str, error: Exception) -> None:
        if name == self.finder.name:
            self.note(f"a call of {name} cannot be looked at: {describe_error(error)}")
        self.finder.others[name] += 1

    def before_other(self, name: str, jitted: Any, args: Any, kwargs: Any) -> None:
        if isinstance(jitted, Mapped) and self.tape.is_on:
            self.tape.name_call(name, jitted.name_arguments(args, kwargs))
        if self.loop is not None and not self.busy and self.loop.is_new(jitted) and not in_trace((args, kwargs)):
            self.busy = True
            with self.guarded(f"the program of {name} cannot be read"):
                self.loop.note_program(name, jitted, args, kwargs)
            self.busy = False

    def after_other(self, name: str, given: Any, results: Any) -> None:
        if self.loop is not None and not self.busy:
            with self.guarded("the loop cannot be followed"):
                self.loop.after_other(name, given, results)

    def note(self, text: str) -> None:
        """Record and print a sentence about a failed part of the observation, each sentence once."""
        if text not in self.record["notes"]:
            self.record["notes"].append(text)
            print_on_stderr(text)

    def run(self, call: Call, go_on: Callable[..., Any]) -> Any:
        if not self.finder.accept(call):
            args, kwargs = call.rebuild()
            results = go_on(*args, **kwargs)
            self.after_other(call.name, call.leaves, results)
            return results
        if self.skipped < self.settings.skipped:
            self.skipped += 1
            args, kwargs = call.rebuild()
            return go_on(*args, **kwargs)
        number, self.calls = self.calls, self.calls + 1
        first, last = self.settings.profile or (None, 0)
        if number == 0:
            self.inspect_call(call)
        elif self.results:
            self.note_feeds(call)
        if 0 < number < self.batches_end:
            with self.guarded("the batch cannot be stored"):
                self.store_batch(call, number)
        if number == self.settings.evaluated and self.is_whole and not self.settings.cycles:
            with self.guarded("the step cannot be evaluated operation by operation"):
                if number:
                    self.share_arguments(call)
                self.evaluate(call.closed, call.name, call.arguments, call.leaves)
        if number == first:
            with self.guarded("the profile cannot be started"):
                self.profiling = Profiling(self.settings.folder / "profile")
        is_first_program = True
        if self.settings.runs:
            self.loop = self.loop or LoopFunctions(call.name, self.tape.knows)
            with self.guarded("the loop cannot be followed"):
                is_first_program = self.loop.before_step(call.closed, call.leaves)
        if self.own_run is None:
            self.own_run = go_on
        with self.guarded("the loop cannot be followed"):
            self.follow(call)
        results = self.go_on(call, go_on, compiled=is_first_program and go_on is self.own_run)
        if self.loop is not None:
            with self.guarded("the loop cannot be followed"):
                self.loop.after_step(results)
        if number == 0:
            ran_lines.begin_loop()
            if self.settings.runs:
                with self.guarded("the results cannot be described"):
                    self.record["results"] = describe_results(results)
                if self.trains_nothing():
                    self.look_further(call.name)
                    return results
            self.results, self.began = jax.tree_util.tree_leaves(results), time.monotonic()
        elif number < FEEDING_CALLS:
            self.results = jax.tree_util.tree_leaves(results)
        if self.profiling is not None and self.profiling.is_enough(last=number == last):
            with self.guarded("the profile cannot be written"):
                jax.block_until_ready(results)
                self.profiling.stop()
            self.finish()
        elif number >= max(last, self.batches_end - 1, self.settings.evaluated or 0):
            self.is_enough = True
            if not self.lacks_cycle():
                self.finish()
        return results

    def follow(self, call: Call) -> None:
        """Begin the next segment of the loop's tape, and note whether the weights have changed."""
        if self.tape.problem or not self.is_whole:
            return
        if self.tape.segment in (0, 1):
            self.tape.name_values()
        self.tape.begin_step(call.name, call.arguments)
        if self.moved and self.moved[-1] and all(self.moved[1:]):
            return  # they always do
        roles = meanings_of(call.arguments)
        weights = [leaf for leaf, (role, _) in zip(call.leaves, roles, strict=True) if role == "parameter"]
        weights = weights or [leaf for leaf in call.leaves if self.tape.knows(leaf)]
        now = [bits.digest_bits(bits.to_bits(one)) for one in weights]
        if self.tape.segment:
            self.moved.append(now != self.weights)
        self.weights = now

    @property
    def updates(self) -> int:
        """The number of recorded updates of the weights."""
        return self.tape.segment if all(self.moved[1:]) else sum(self.moved)

    def lacks_cycle(self) -> bool:
        """Whether more calls are recorded until the loop's cycle shows."""
        if self.tape.segment < 0 or self.tape.problem or (self.tape.is_of_step and self.moved and all(self.moved[1:])):
            return False
        late = time.monotonic() - self.began > MAX_CYCLE_S
        return self.updates < MIN_UPDATES and self.tape.segment < MAX_CALLS and not late

    def note_feeds(self, call: Call) -> None:
        """Note which arguments of a call are results of the one before, for the first FEEDING_CALLS calls together.

        Between the first two calls an evaluation may have written what a result would feed.
        """
        places = {id(result): place for place, result in enumerate(self.results)}
        fed = [places.get(id(leaf)) for leaf in call.leaves]
        before = self.record.get("feeds") or fed
        self.record["feeds"] = [new if old is None else old for old, new in zip(before, fed, strict=True)]
        self.results = []

    def store_batch(self, call: Call, number: int) -> None:
        """Store the arguments that are no results of the previous call.

        A slow step ends the storing: after MAX_BATCH_S seconds no batch but the first MIN_BATCHES is stored.
        """
        names = [name for name, fed in zip(call.arguments, self.record["feeds"], strict=True) if fed is None]
        arrays = [leaf for leaf, fed in zip(call.leaves, self.record["feeds"], strict=True) if fed is None]
        if not all(map(bits.is_in_process, arrays)):
            self.batches_end = 0
            return
        files.write_arrays(files.batch_file(self.settings.folder, number), names, list(map(bits.to_bits, arrays)))
        if number + 1 >= MIN_BATCHES and time.monotonic() - self.began > MAX_BATCH_S:
            self.batches_end = number + 1

    @contextmanager
    def guarded(self, what: str) -> Any:
        """Note an exception of the block instead of raising it, because it must not end the trainer."""
        try:
            yield
        except Exception as error:
            self.note(f"{what}: {describe_error(error)}")

    def replace(self, call: Call, start: Path) -> None:
        """Replace the call's arguments, where possible, by the other arm's arguments in the folder `start`."""
        own = [bits.digest_bits(bits.to_bits(leaf)) if bits.is_in_process(leaf) else None for leaf in call.leaves]
        done = Replacement(call.arguments, call.leaves, start / files.ARGUMENTS)
        call.leaves = done.leaves
        self.own = {name: mine for name, mine in zip(call.arguments, own, strict=True) if name in done.replaced}
        print_on_stderr(f"{len(done.replaced)} of {len(call.leaves)} arguments are the other arm's")

    def inspect_call(self, call: Call) -> None:
        """Record everything that must be read before the step runs, because the step may overwrite its arguments."""
        folder, start = self.settings.folder, self.settings.start
        if start is not None:
            with self.guarded("the arguments cannot be replaced"):
                self.replace(call, start)
        self.record |= {"step": call.name, **surroundings()}
        with self.guarded("the program cannot be lowered"):
            began = time.thread_time()
            lowered = call.lower()
            self.front_end = FrontEnd(call, time.thread_time() - began)
            self.record["kept"] = kept_arguments(lowered)
            self.write_program(lowered)
            self.compiled = call.compiled or lowered.compile()
            if self.settings.runs and (text := self.compiled.as_text()):
                files.write_packed(folder / files.OPTIMISED, text)
        if self.settings.runs and self.compiled is not None:
            with self.guarded("the buffers cannot be written"):
                files.write_memory(folder, self.compiled)
        with self.guarded("the arguments cannot be described"):
            found = describe_all(call.arguments, call.leaves, donated(lowered, len(call.leaves)))
            self.record["arguments"] = [{**one, "own_digest": self.own.get(one["name"])} for one in found]
        self.is_whole = all(map(bits.is_in_process, call.leaves))
        if not self.is_whole:
            self.note(f"the step is sharded over {jax.process_count()} processes: its tensors are not looked at")
        else:
            with self.guarded("the arguments cannot be written"):
                files.write_arrays(folder / files.ARGUMENTS, call.arguments, list(map(bits.to_bits, call.leaves)))

    def share_arguments(self, call: Call) -> None:
        """Store the arguments of a later call, or replace them by those that the other arm stored in this call."""
        if self.settings.start is None:
            held = list(map(bits.to_bits, call.leaves))
            files.write_arrays(self.settings.folder / files.EVALUATED, call.arguments, held)
        else:
            call.leaves = Replacement(call.arguments, call.leaves, self.settings.start / files.EVALUATED).leaves

    def evaluate(self, closed: Any, name: str, arguments: list[str], leaves: list[Any]) -> None:
        """Evaluate a program in float64 operation by operation; write a row per tensor, and the first arm's draws."""
        began = time.process_time()
        with files.packed_lines(self.settings.folder / files.TENSORS) as write:
            evaluation = StepEvaluation(write, Draws(self.given_draws(arguments)))
            evaluation.run(closed, leaves)
        for text in dict.fromkeys(evaluation.notes):
            self.note(text)
        self.record["tensors"] = evaluation.rows
        held = evaluation.draws.held
        if held and self.settings.start is None:
            with self.guarded("the draws cannot be written"):
                files.write_arrays(self.settings.folder / files.DRAWS, list(held), list(held.values()))
        print_on_stderr(f"{evaluation.rows} tensors of {name} in {time.process_time() - began:.1f} s of the processor")

    def given_draws(self, arguments: list[str]) -> Mapping[str, Any]:
        """Return the other arm's draws if both arms have random keys, but none in common; else {}."""
        start = self.settings.start
        if start is None or not (start / files.DRAWS).exists():
            return {}
        if have_common_keys(arguments, files.read_arrays(start / files.ARGUMENTS)):
            return {}
        return files.read_arrays(start / files.DRAWS)

    def trains_nothing(self) -> bool:
        """Return whether the step returns all that it is given unchanged: an evaluation that returns its model."""
        given = {one["digest"] for one in self.record.get("arguments", ()) if "digest" in one}
        types = {(tuple(one["shape"]), one["dtype"]) for one in self.record.get("arguments", ())}
        alike = [one for one in self.record["results"] if (tuple(one["shape"]), one["dtype"]) in types]
        return not self.settings.function and bool(alike) and all(one.get("digest") in given for one in alike)

    def look_further(self, name: str) -> None:
        """Forget the recorded call, and look for the step among the other functions."""
        self.finder.reject(name)
        (self.settings.folder / files.PROGRAM).unlink(missing_ok=True)
        self.calls, self.compiled, self.loop, self.results = 0, None, None, []
        self.tape.clear()
        self.moved, self.weights = [], []
        self.record = {"notes": self.record["notes"]}
        print_on_stderr(f"{name} returns its arrays unchanged: it is not the training step")

    def go_on(self, call: Call, go_on: Callable[..., Any], *, compiled: bool) -> Any:
        """Run the step; with `compiled`, use the program that was compiled for the observation, if there is one."""
        if compiled and self.compiled is not None and call.compiled is None:
            args, kwargs = call.rebuild_dynamic()
            self.busy = True  # the patched `jax.jit` also sees this call: `wants` must ignore it
            try:
                return self.compiled(*args, **kwargs)
            except TypeError as error:
                self.note(f"the program compiled to look at it cannot be run: {describe_error(error)}")
                self.compiled = None
            finally:
                self.busy = False
        args, kwargs = call.rebuild()
        return go_on(*args, **kwargs)

    def finish(self) -> None:
        """Write the record and end the process."""
        self.write()
        print_on_stderr("observed; the process ends here")
        os._exit(0)

    def write(self) -> None:
        """Write `observation.json`, and the lines that ran."""
        if self.loop is not None:
            self.record["loop"] = self.loop.describe()
            with self.guarded("the cycle cannot be written"):
                self.write_cycle()
        ran_lines.write()
        read_files.write()
        is_timed = self.settings.timed and self.settings.runs and self.settings.profile is None
        if is_timed and self.front_end is not None:
            with self.guarded("the step cannot be traced again"), self.tape.paused():
                self.record["front_end"] = self.front_end.measure()
        files.write_json(self.settings.folder / files.OBSERVATION, self.record)

    def write_cycle(self) -> None:
        """Record what the loop computes in one cycle, if that is more than the step's call."""
        if self.tape.segment < 0 or self.loop is None:
            return
        tape = self.tape
        with tape.paused():
            found: dict[str, Any] = {"functions": {}, "gaps": [], "problem": ""}
            try:
                cycle = find_cycle(tape, self.moved)
                if missing := [one for one in self.settings.others if one not in cycle.functions]:
                    raise NoCycle(f"`{missing[0]}` is no part of the cycle: no later state depends on it")
                found |= {"functions": cycle.functions, "eager": cycle.eager, "period": cycle.period}
                found |= {
                    "not_evaluated": cycle.not_evaluated,
                    "gaps": cycle.gaps,
                    "doubts": cycle.doubts,
                    "calls": len(cycle.cycles),
                }
                if not cycle.is_one_call:
                    kept = {key: self.record[key] for key in ("devices", "platform", "software")}
                    traced = write_cycle(self.settings.folder / files.CYCLE, cycle, kept, kept_arguments)
                    found["is_written"] = True
                    if self.settings.cycles and self.settings.evaluated is not None:
                        self.evaluate_cycle(cycle, traced.jaxpr)
            except NoCycle as error:
                found["problem"] = str(error)
            self.record["cycle"] = found

    def evaluate_cycle(self, cycle: Cycle, closed: Any) -> None:
        """Evaluate the loop's cycle operation by operation, and record its arguments, in place of the step's."""
        assert self.settings.evaluated is not None
        folder, start = self.settings.folder / files.CYCLE, self.settings.start
        number = min(self.settings.evaluated, len(cycle.cycles) - 1)
        names, leaves = slot_names(cycle), arguments_of(cycle, number)
        file = files.EVALUATED if number else files.ARGUMENTS
        own = {}
        if start is None:
            files.write_arrays(folder / file, names, list(map(bits.to_bits, leaves)))
        else:
            done = Replacement(names, leaves, start / files.CYCLE / file)
            if not number:
                both = zip(names, leaves, strict=True)
                own = {name: bits.digest_bits(bits.to_bits(leaf)) for name, leaf in both if name in done.replaced}
            leaves = done.leaves
        described = [{**one, "own_digest": own.get(one["name"])} for one in describe_all(names, leaves)]
        self.record |= {"arguments": described, "results": [], "kept": None, "feeds": feeds_of(cycle)}
        (self.settings.folder / files.PROGRAM).write_bytes((folder / files.PROGRAM).read_bytes())
        self.evaluate(closed, " and ".join(cycle.functions), names, leaves)

    def end_without_step(self) -> None:
        """Write a record with the reason why the observation is missing or unfinished; called at the process's exit."""
        if (self.settings.folder / files.CLAIM).exists() and not self.finder.claimed:
            return  # another process of this trainer records the step
        died = getattr(sys, "last_value", None)  # the uncaught exception that ended the process
        if died is not None and "step" not in self.record:
            self.note(f"the trainer failed before its training step: {describe_error(died)}")
        elif self.finder.name is None:
            self.note(self.explain_missing_step())
        elif not self.is_enough:
            self.note("the trainer ended before the wanted calls were made")
        self.write()

    def explain_missing_step(self) -> str:
        """Return why no step was found."""
        shown = ", ".join(list(self.finder.others)[:5])
        if jax.jit is not self.jit and not isinstance(getattr(jax.jit, "__wrapped__", None), type(self.jit)):
            return "no step was found: the trainer has replaced jax.jit by a function of its own"
        if self.settings.function:
            return f"no step was found: the trainer calls no jitted function `{self.settings.function}`"
        if not shown:
            return "no step was found: the trainer calls no jitted function"
        return f"no step was found among the jitted functions of the trainer ({shown}): none returns what it trains"


def surroundings() -> dict[str, Any]:
    """Return the number of devices, their platform, and the versions of the installed _PACKAGES."""
    software = {}
    for package in _PACKAGES:
        try:
            software[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    count, platform = jax.device_count(), jax.devices()[0].platform
    return {"devices": count, "platform": platform, "software": software}


def kept_arguments(lowered: Any) -> list[int] | None:
    """Return the indices of the arguments that are left in the program; None if this JAX does not tell."""
    arguments = getattr(getattr(lowered, "_lowering", None), "compile_args", {}).get("kept_var_idx")
    return None if arguments is None else sorted(arguments)


def donated(lowered: Any, count: int) -> list[bool]:
    """Return, for each argument, whether the program may overwrite it; all False if their number differs."""
    infos = jax.tree_util.tree_leaves(lowered.args_info)
    return [bool(info.donated) for info in infos] if len(infos) == count else [False] * count


def describe_results(results: Any) -> list[dict[str, Any]]:
    """Return a JSON object per result of the compiled step."""
    paths = jax.tree_util.tree_flatten_with_path(results)[0]
    return describe_all([f"result{jax.tree_util.keystr(path)}" for path, _ in paths], [leaf for _, leaf in paths])


def describe_all(names: list[str], arrays: list[Any], donated: list[bool] | None = None) -> list[dict[str, Any]]:
    """Return a JSON object per array; see `ObservedArray` for its keys."""
    listed = zip(names, meanings_of(names), arrays, donated or [False] * len(names), strict=True)
    return [record_array(*one) for one in listed]


def record_array(name: str, place: tuple[str, str], array: Any, donated: bool) -> dict[str, Any]:
    """Return the JSON object of one array. place: its role and canonical path."""
    shape, kind = tuple(getattr(array, "shape", ())), getattr(array, "dtype", type(array).__name__)
    sharding = getattr(array, "sharding", None)
    found = {
        "name": name,
        "role": place[0],
        "meaning": place[1],
        "shape": list(shape),
        "dtype": str(kind),
        "sharding": split_axes(sharding, len(shape)),
        "bytes_per_device": bytes_of(array, sharding, shape),
        "donated": donated,
    }
    if bits.is_in_process(array):
        norm, mean, _, _, digest = bits.measure_array(array)
        numbers = {"norm": norm, "mean": mean}
        found |= {key: value for key, value in numbers.items() if math.isfinite(value)} | {"digest": digest}
    return found


def split_axes(sharding: Any, rank: int) -> str:
    """Return the mesh axes that split each dimension of an array, `-` for none, e.g. `(fsdp, -)`; else empty."""
    if not isinstance(sharding, jax.sharding.NamedSharding):
        return ""
    spec = [*sharding.spec, *[None] * rank][:rank]
    named = [axes if isinstance(axes, tuple) else (axes,) for axes in spec]
    split = ["+".join(axis for axis in axes if axis and sharding.mesh.shape.get(axis, 1) > 1) or "-" for axes in named]
    return f"({', '.join(split)})"


def bytes_of(array: Any, sharding: Any, shape: tuple[int, ...]) -> int:
    """Return the bytes of an array on one device; 0 if unknown."""
    try:
        part = sharding.shard_shape(shape) if sharding is not None else shape
        return math.prod(part) * int(array.dtype.itemsize)
    except (AttributeError, TypeError, ValueError):
        return 0
