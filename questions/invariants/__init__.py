"""The extension `invariants`: do the settings of one trainer that must not change what is computed agree (its twins).

In: configs/invariants, a trainer and its version. Out: `InvariantsRecord`, its page, twenty lines.
Read first: make_record.py.
"""

from configs.extensions import Extension

EXTENSION = Extension(
    command="questions.invariants.command:invariants",
    summary="Evaluate a trainer's own twins: settings that must not matter.",
    examples=("--case all --twin scan --twin mesh-fsdp", "--trainer maxtext --with maxtext==0.2.5"),
    flow="questions.invariants.flow:invariants",
    demo="questions.invariants.command:add_to_demo",
)
