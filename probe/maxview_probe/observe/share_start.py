"""Starts a run with another arm's first state and batches, without changing its trainer.

An arm is one of the two compared versions of a trainer. One arm stores the arguments of its first step, and every batch
that differs from the previous batch. The other arm's trainer gets these arguments in place of its own: arguments are
matched by meaning, batches also by step number. `start.json` lists replaced and kept arguments. If the
batches of a run take more than MAX_BATCH_BYTES, both runs continue with their own batches.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from maxview_probe.observe import bits
from maxview_probe.observe import observation_files as files
from maxview_probe.observe.find_step import StepFinder
from maxview_probe.observe.jit_hook import ArgsKwargs, Bystander, Call
from maxview_probe.observe.meaning import meanings_of
from maxview_probe.observe.observation_files import RecorderSettings
from maxview_probe.observe.other_arm import Replacement
from maxview_probe.observe.stderr_lines import describe_error, print_on_stderr

MAX_BATCH_BYTES = 1 << 28  # total of the batches that one run stores


class StartSharer(Bystander):
    """The `Recorder` of a whole training run, which stores its start for the other arm or uses that arm's start."""

    def __init__(self, settings: RecorderSettings):
        self.settings, self.finder = settings, StepFinder(settings.folder)
        self.first = 0  # step number of the first call; above 0 after a resume
        self.calls, self.ended = 0, False  # ended: arguments are no longer shared
        self.results: list[Any] = []  # results of the first call: as arguments of the second call they are state
        self.fresh: dict[int, str] | None = None  # the batch's arguments: index → name; None before the second call
        self.leaves = 0  # number of arguments of a call, without static ones
        self.batch, self.bytes = "", 0  # digest of the last stored batch, and total bytes of all stored batches
        # the first step without a stored batch; None: the other arm stored all batches, or this arm stores them
        self.batches_end = None if settings.start is None else read_batches_end(settings.start)

    def prepare(self, function: Any) -> Any:
        return function

    def wants(self, name: str) -> bool:
        return not self.ended and self.finder.may_be(name)

    def fail(self, name: str, error: Exception) -> None:
        self.finder.others[name] += 1

    def before_compile(self, name: str, closed: Any, lowered: Any) -> None:
        pass

    def before_other(self, name: str, jitted: Any, args: Any, kwargs: Any) -> None:
        pass

    def after_other(self, name: str, given: Any, results: Any) -> None:
        pass

    def replace_arguments(self, name: str, args: Any, kwargs: Any) -> ArgsKwargs | None:
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        if self.fresh is None or len(leaves) != self.leaves:  # static arguments add leaves: use `run`
            return None
        self.calls += 1
        with_batch = self.guarded(lambda: self.share_batch(leaves, self.first + self.calls - 1))
        return None if with_batch is None else jax.tree_util.tree_unflatten(tree, with_batch)

    def run(self, call: Call, go_on: Callable[..., Any]) -> Any:
        if self.finder.accept(call):
            number, self.calls = self.calls, self.calls + 1
            call.leaves = self.guarded(lambda: self.share(call, number)) or call.leaves
        args, kwargs = call.rebuild()
        results = go_on(*args, **kwargs)
        if self.finder.claimed and self.calls == 1 and not self.ended:
            self.results = jax.tree_util.tree_leaves(results)
        return results

    def guarded(self, share: Callable[[], list[Any]]) -> list[Any] | None:
        """Return the leaves that `share` returns; None after an exception: the run then keeps its own arguments."""
        try:
            return share()
        except Exception as error:
            self.give_up(f"the start is not shared: {describe_error(error)}")
            return None

    def share(self, call: Call, number: int) -> list[Any]:
        """Return the leaves to use in place of the call's own. number: index of the call."""
        if number == 0:
            self.first = counter_of(call.arguments, call.leaves) or 0
            return self.begin(call)
        if self.fresh is None:
            self.fresh, self.leaves, self.results = fresh_data(call, self.results), len(call.leaves), []
            self.ended = not self.fresh
        return self.share_batch(call.leaves, self.first + number)

    def begin(self, call: Call) -> list[Any]:
        """Store or replace the arguments of the process's first call; return the arguments to use.

        A resumed run, and a run whose state is split over processes, keep their own arguments.
        """
        if not all(map(bits.is_in_process, call.leaves)):
            self.give_up("the start is not shared: other processes hold parts of the state")
        elif self.settings.start is None:
            if not (self.settings.folder / files.ARGUMENTS).exists():
                held = list(map(bits.to_bits, call.leaves))
                files.write_arrays(self.settings.folder / files.ARGUMENTS, call.arguments, held)
                print_on_stderr(f"start: the first {len(held)} arguments of {call.name} are kept for the other arm")
        elif not (file := self.settings.start / files.ARGUMENTS).exists():
            self.give_up("the start is not shared: the other arm has kept none")
        elif self.first != stored_step(file):
            print_on_stderr(f"start: {call.name} goes on from step {self.first}: its state stays as it is")
        else:
            return self.take_arguments(call, file)
        return call.leaves

    def take_arguments(self, call: Call, file: Path) -> list[Any]:
        """Return the call's leaves with the other arm's first arguments in `file`; write `start.json`."""
        done = Replacement(call.arguments, call.leaves, file)
        print_on_stderr(f"start: shared: {len(done.replaced)} of {len(call.leaves)} arguments are the other arm's")
        for name, reason in done.kept.items():
            print_on_stderr(f"start: {name} stays the arm's own: {reason}")
        self.write_report(replaced=done.replaced, kept=done.kept, unused=done.unused, own_values=done.own_values)
        return done.leaves

    def share_batch(self, leaves: list[Any], step: int) -> list[Any]:
        """Return the leaves with the other arm's batch of this step, or unchanged without one.

        If this arm stores its start, store its batch instead, and return the leaves unchanged.
        """
        assert self.fresh is not None
        if self.settings.start is None:
            self.keep_batch([bits.to_bits(leaves[place]) for place in self.fresh], step)
            return leaves
        if self.batches_end is not None and step >= self.batches_end:
            self.keep_own_batches(self.batches_end)
            return leaves
        file = last_batch(self.settings.start, step)
        if file is None:
            return leaves
        theirs = files.read_arrays(file)
        places = dict(zip(meanings_of(theirs), theirs, strict=True))
        changed = list(leaves)
        for place, meaning in zip(self.fresh, meanings_of(self.fresh.values()), strict=True):
            values = theirs[places[meaning]] if meaning in places else None
            if values is not None and values.shape == leaves[place].shape:
                changed[place] = bits.from_bits(values, leaves[place])
        return changed

    def keep_batch(self, arrays: list[Any], step: int) -> None:
        """Store a batch if it differs from the previous batch; give up if the total exceeds MAX_BATCH_BYTES."""
        assert self.fresh is not None
        found = "".join(map(bits.digest_bits, arrays))
        if found == self.batch:
            return
        self.batch, self.bytes = found, self.bytes + sum(array.nbytes for array in arrays)
        if self.bytes > MAX_BATCH_BYTES:
            files.write_json(self.settings.folder / files.BATCHES_END, step)
            self.give_up(f"start: batches are kept up to step {step}: they take more than {MAX_BATCH_BYTES >> 20} MiB")
        else:
            files.write_arrays(files.batch_file(self.settings.folder, step), list(self.fresh.values()), arrays)

    def keep_own_batches(self, step: int) -> None:
        """Stop replacing batches, because the other arm stored none from `step` on; add the step to `start.json`."""
        self.ended = True
        print_on_stderr(f"start: from step {step} on, the batches are the arm's own: the other arm stored no more")
        file = self.settings.folder / files.START
        if file.exists():
            self.write_report(**json.loads(file.read_text(encoding="utf-8")), own_batches_from=step)

    def give_up(self, reason: str) -> None:
        """Stop sharing; from now on the run uses its own arguments. Report it if this arm should use a start."""
        self.ended = True
        print_on_stderr(reason)
        if self.settings.start is not None and not (self.settings.folder / files.START).exists():
            self.write_report(reason=reason)

    def write_report(self, **found: Any) -> None:
        """Write `start.json`."""
        files.write_json(self.settings.folder / files.START, found)


def counter_of(names: list[str], arrays: list[Any]) -> int | None:
    """Return the value of a state's step counter; None without one."""
    for meaning, array in zip(meanings_of(names), arrays, strict=True):
        if meaning == ("counter", "step") and getattr(array, "size", 0) == 1:
            return int(bits.to_host(array))
    return None


def stored_step(file: Path) -> int:
    """Return the value of the step counter in a file of stored arguments; 0 without a counter."""
    stored = files.read_arrays(file)
    counters = [name for name in stored if meanings_of([name]) == [("counter", "step")]]
    return counter_of(counters, [stored[name] for name in counters]) or 0


def fresh_data(call: Call, results: list[Any]) -> dict[int, str]:
    """Return index → name of the arguments that are data and not results of the previous call."""
    known, meanings = set(map(id, results)), meanings_of(call.arguments)
    return {
        place: name
        for place, (name, (role, _)) in enumerate(zip(call.arguments, meanings, strict=True))
        if role == "data" and id(call.leaves[place]) not in known
    }


def last_batch(folder: Path, step: int) -> Path | None:
    """Return the last batch file up to a step, or None.

    It has the step's batch, because consecutive equal batches are stored once.
    """
    kept = sorted(file for file in folder.glob("batch-*.npz") if file <= files.batch_file(folder, step))
    return kept[-1] if kept else None


def read_batches_end(folder: Path) -> int | None:
    """Return the first step without a stored batch; None if all batches were stored."""
    file = folder / files.BATCHES_END
    return int(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else None
