"""The extension `preflight` compares what two arms compile to for a slice that need not exist here.

In: the results of compiles. Out: a `ComparisonRecord` of programs.
Read first: compare_compiles.py.
"""

from configs.extensions import Extension

EXTENSION = Extension(
    command="questions.preflight.command:preflight",
    summary="Compile both arms for a TPU slice, without one.",
    group="Operate",
    examples=("linen-vs-nnx", "linen-vs-nnx --case 03_dropout --target v5e-32"),
    flow="questions.preflight.flow:preflight",
    refuse_cases="questions.preflight.flow:refuse_cases",
    demo="questions.preflight.command:add_to_demo",
)
