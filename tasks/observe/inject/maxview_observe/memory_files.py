"""Writes where the compiler put every buffer of the step, and the names of the instructions that make them."""

from pathlib import Path
from typing import Any

from .files import whole

BUFFERS, INSTRUCTIONS = "step.buffers.pb", "step.hlo.pb"  # xla.BufferAssignmentProto, xla.HloModuleProto


def write_memory(folder: Path, compiled: Any) -> None:
    """Both files, where the compiler gives them: it does since jaxlib 0.7."""
    assignment = getattr(compiled.memory_analysis(), "serialized_buffer_assignment_proto", None)
    if not assignment:
        return
    (module,) = compiled.runtime_executable().hlo_modules()
    for name, message in ((BUFFERS, assignment), (INSTRUCTIONS, module.as_serialized_hlo_module_proto())):
        with whole(folder / name) as file:
            file.write_bytes(message)
