"""Reads a recorded training step: its program, the arrays that go in and come out, and their recorded values.

A recording is the folder that `observe_arm` fills: `step.mlir.gz`, `arguments.npz`, `observation.json`, `batch-*.npz`.
"""

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import ml_dtypes
import numpy as np
from jax.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir

from maxview_probe.observe.meaning import meanings_of
from maxview_probe.observe.observation_files import ARGUMENTS, OBSERVATION, PROGRAM, batch_file

_NAME = re.compile(r'loc\("((?:[^"\\]|\\.)*)"')
_WORD = re.compile(r"\w+")
_RESULT = re.compile(r'"result(.*)"')
LOSS = "loss"
# element type in StableHLO → NumPy's type; `_SHORT` covers the other integers and floats
_TYPES = {
    "i1": "bool",
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
}
_SHORT = re.compile(r"(ui|i|f)(\d+)")
_WORDS = {"ui": "uint", "i": "int", "f": "float"}


@dataclass(frozen=True)
class Slot:
    """One input or output of a program."""

    role: str
    meaning: str  # path without the parts that Linen or NNX add; equal in both arms
    shape: tuple[int, ...]
    type: str  # element type in StableHLO, "bf16"

    @property
    def is_float(self) -> bool:
        """Whether its elements are floating-point numbers."""
        return self.type.startswith(("f", "bf"))


class RecordedStep:
    """One arm's recorded step. Inputs and outputs are in the program's order."""

    def __init__(self, folder: Path):
        """Read a recording. Raises ValueError if it is incomplete or if its program cannot be parsed."""
        self.folder = folder
        try:
            self.text = gzip.decompress((folder / PROGRAM).read_bytes()).decode()
            self.record: dict[str, Any] = json.loads((folder / OBSERVATION).read_text(encoding="utf-8"))
            stored = np.load(folder / ARGUMENTS, allow_pickle=False)
            self._stored = {key.partition("|")[2]: stored[key] for key in stored.files}
        except FileNotFoundError as error:
            what = "its program was not kept" if str(error.filename).endswith(PROGRAM) else "the step was not recorded"
            raise ValueError(f"{what} ({Path(error.filename).name} is missing)") from error
        except (OSError, EOFError, ValueError, zlib.error, BadZipFile) as error:
            again = f"delete {folder.parent.name}/{folder.name} to record it again"
            raise ValueError(f"the recorded step cannot be read: {error}; {again}") from error
        self.names = list(self._stored)
        with mlir_context():
            module = parse_program(self.text)
            self.devices = read_device_count(module)
            main = find_main(module)
            arguments = main.regions[0].blocks[0].arguments
            types = [str(one.type) for one in arguments]
            located = [found[1] if (found := _NAME.match(str(one.location))) else "" for one in arguments]
            results = [str(one) for one in ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results]
            self._result_names = _result_names(main, len(results))
        self.kept = self._find_kept(located)
        roles = meanings_of(self.names)
        self.inputs = [Slot(*roles[place], *split_type(kind)) for place, kind in zip(self.kept, types, strict=True)]
        self.fed = self._find_fed([split_type(kind) for kind in results])
        if not any(slot.role == "parameter" for slot in self.inputs):  # Equinox passes flat lists: no name tells a role
            self._take_as_state("data")
            if not any(slot.role == "parameter" for slot in self.inputs):  # stax keeps weights in its optimizer's state
                self._take_as_state("optimizer")
        elif self.record.get("period"):  # of the state of a loop's other functions, such as `mean['w']`
            self.inputs = [
                _as_state(replace(slot, meaning=".".join(_WORD.findall(self.names[place]))))
                if slot.role == "data" and n in self.fed
                else slot
                for n, (place, slot) in enumerate(zip(self.kept, self.inputs, strict=True))
            ]
        own = set(self.record.get("own_counters", ()))  # inputs of a cycle that only their own next values read
        self.own_counters = {n for n, place in enumerate(self.kept) if place in own}
        self.outputs = self._find_outputs([split_type(kind) for kind in results])
        reads = set(self.kept)
        # index among the call's arguments → slot of an argument that the program does not read: `jit` leaves it out
        self.unread = {
            place: Slot(*role, self._stored[name].shape, _type_of(self._stored[name]))
            for place, (name, role) in enumerate(zip(self.names, roles, strict=True))
            if place not in reads
        }

    def _take_as_state(self, role: str) -> None:
        """Make parameters and counters of the inputs of a role that results feed."""
        self.inputs = [
            _as_state(slot) if n in self.fed and slot.role == role else slot for n, slot in enumerate(self.inputs)
        ]

    def _find_kept(self, located: Sequence[str]) -> list[int]:
        """Return the index among the call's arguments of each input of the program."""
        kept = self.record.get("kept")
        if kept is not None and len(kept) == len(located):
            return list(kept)
        if len(located) == len(self.names):
            return list(range(len(located)))
        places = {name: place for place, name in enumerate(self.names)}
        missing = [name for name in located if name not in places]
        if missing:
            raise ValueError(f"the program's input {missing[0] or '(without a name)'} was not recorded")
        return [places[name] for name in located]

    def _find_fed(self, results: Sequence[tuple[tuple[int, ...], str]]) -> dict[int, int]:
        """Return input → the output that becomes this input in the next step."""
        feeds = self.record.get("feeds")
        if feeds is not None:
            return {n: feeds[place] for n, place in enumerate(self.kept) if feeds[place] is not None}
        named = dict(zip(meanings_of(self._result_names), range(len(results)), strict=True))
        return {
            n: output
            for n, slot in enumerate(self.inputs)
            if (output := named.get((slot.role, slot.meaning))) is not None
            and results[output] == (slot.shape, slot.type)
        }

    def _find_outputs(self, results: Sequence[tuple[tuple[int, ...], str]]) -> list[Slot]:
        feeding = {output: self.inputs[n] for n, output in self.fed.items()}
        if feeds := self.record.get("feeds"):  # outputs for arguments that the program does not read
            roles = meanings_of(self.names)
            named = {output: roles[place] for place, output in enumerate(feeds) if output is not None}
        else:
            named = {}
        found = []
        for n, (place, kind) in enumerate(zip(meanings_of(self._result_names), results, strict=True)):
            known = (feeding[n].role, feeding[n].meaning) if n in feeding else named.get(n)
            role, meaning = known or ((place[0] if place[0] != "data" else "metric"), place[1])
            found.append(Slot(role, meaning, *kind))
        numbers = [n for n, slot in enumerate(found) if slot.role == "metric" and slot.is_float and slot.shape == ()]
        if len(numbers) == 1 and not any(char.isalpha() for char in found[numbers[0]].meaning):
            found[numbers[0]] = replace(found[numbers[0]], meaning=LOSS)  # a step's one number without a name
        return found

    @cached_property
    def first(self) -> list[np.ndarray]:
        """The values of the inputs in the first call."""
        return [
            restore_array(self._stored[self.names[place]], slot)
            for place, slot in zip(self.kept, self.inputs, strict=True)
        ]

    @cached_property
    def batches(self) -> int:
        """The number of calls whose batches were recorded, at least 1."""
        number = 1
        while batch_file(self.folder, number).exists():
            number += 1
        return number

    def unread_values(self, number: int) -> list[np.ndarray]:
        """Return the bits of the arguments that the program does not read, in a call, in the order of `unread`."""
        turn = number % self.batches
        file = batch_file(self.folder, turn)
        stored = np.load(file, allow_pickle=False) if turn else {}
        values = {key.partition("|")[2]: stored[key] for key in stored}
        return [values.get(name, self._stored[name]) for name in (self.names[place] for place in self.unread)]

    def batch(self, number: int) -> dict[int, np.ndarray]:
        """Return input → value in a call, for inputs that no output feeds; recorded batches are used in turns."""
        turn = number % self.batches
        fresh = [n for n in range(len(self.inputs)) if n not in self.fed]
        if turn == 0:
            return {n: self.first[n] for n in fresh}
        stored = np.load(batch_file(self.folder, turn), allow_pickle=False)
        values = {key.partition("|")[2]: stored[key] for key in stored.files}
        names = {n: self.names[self.kept[n]] for n in fresh}
        return {
            n: restore_array(values[name], self.inputs[n]) if name in values else self.first[n]
            for n, name in names.items()
        }


def _as_state(slot: Slot) -> Slot:
    """Return an input that a result feeds as what it is without a name: a parameter, or a counter."""
    return replace(slot, role="parameter" if slot.is_float else "counter")


@contextmanager
def mlir_context() -> Iterator[None]:
    """Provide the context and the location that programs of JAX are parsed and changed in."""
    with make_ir_context() as context, ir.Location.unknown(context):
        context.allow_unregistered_dialects = True
        yield


def parse_program(text: str) -> Any:
    """Return the module of a program's text. Raises ValueError if this JAX cannot parse it."""
    try:
        return ir.Module.parse(text)
    except ir.MLIRError as error:
        raise ValueError("the program cannot be parsed by this JAX") from error


def find_main(module: Any) -> Any:
    """Return the operation of a module's public function."""
    for held in module.body.operations:
        operation = held.operation
        if operation.name == "func.func" and ir.StringAttr(operation.attributes["sym_name"]).value == "main":
            return operation
    raise ValueError("the program has no function main")


def split_type(text: str) -> tuple[tuple[int, ...], str]:
    """Return shape and element type of `tensor<4x8xbf16>`."""
    *sizes, kind = text.removeprefix("tensor<").removesuffix(">").split(",")[0].split("x")
    return tuple(map(int, sizes)), kind


def _type_of(values: np.ndarray) -> str:
    """Return the element type in StableHLO of stored bits; of a bfloat16 those of an integer are stored."""
    word = next((short for short, long in _WORDS.items() if str(values.dtype).startswith(long)), "i")
    return "i1" if values.dtype == bool else f"{word}{8 * values.dtype.itemsize}"


def numpy_type(kind: str) -> np.dtype[Any]:
    """Return NumPy's type of an element type in StableHLO."""
    found = _SHORT.fullmatch(kind)
    return np.dtype(_TYPES.get(kind) or (f"{_WORDS[found[1]]}{found[2]}" if found else kind))


def restore_array(bits: np.ndarray, slot: Slot) -> np.ndarray:
    """Return stored bits as an array of the slot's type and shape."""
    kind = numpy_type(slot.type)
    values = (
        bits if bits.dtype == kind else bits.view(kind) if bits.dtype.itemsize == kind.itemsize else bits.astype(kind)
    )
    return values.reshape(slot.shape)


def read_device_count(module: Any) -> int:
    """Return the number of devices that a program is for."""
    attributes = module.operation.attributes
    name = "mhlo.num_partitions"
    return int(ir.IntegerAttr(attributes[name]).value) if name in attributes else 1


def _result_names(main: Any, count: int) -> list[str]:
    """Return the names that JAX gave the results: their paths; `result[n]` if the program has none."""
    if "res_attrs" not in main.attributes:
        return [f"[{n}]" for n in range(count)]
    found = []
    for n, attribute in enumerate(ir.ArrayAttr(main.attributes["res_attrs"])):
        named: Any = ir.DictAttr(attribute)
        held = {one.name: str(one.attr) for one in named}
        name = _RESULT.fullmatch(held.get("jax.result_info", "").replace("\\22", "'"))
        found.append(name[1] if name else f"[{n}]")
    return found
