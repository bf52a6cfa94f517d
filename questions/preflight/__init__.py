"""The question `preflight` compares what two arms compile to for a slice that need not exist here.

In: the results of compiles. Out: a `ComparisonRecord` of programs.
Read first: compare_compiles.py.
"""

from configs.questions import Question

QUESTION = Question(
    command="questions.preflight.command:preflight",
    summary="Compile both arms for a TPU slice, without one.",
    group="Operate",
    examples=("linen-vs-nnx", "linen-vs-nnx --case 03_dropout --target v5e-32"),
    flow="questions.preflight.flow:preflight",
    launches_jobs=True,
    refuse_cases="questions.preflight.flow:refuse_cases",
    suggests_when="agrees",
    suggest="questions.preflight.suggest:suggest",
    purpose="This command compiles both arms for a TPU slice, without one: would they differ there?",
)
