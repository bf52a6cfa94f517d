"""The question `restores`: does each version of a trainer restore what each version has saved, array by array.

In: a comparison, or a typed command. Out: `RestoreMatrix`, its lines, and the row *Restored* of a comparison.
Read first: restore_matrix.py.
"""

from configs.questions import Question

QUESTION = Question(
    command="questions.restores.command:restores",
    summary="Check that what was restored is what was saved, array by array.",
    read_typed="questions.restores.command:read_typed",
    after_run="questions.restores.steps:check_after_run",
    examples=("linen-vs-nnx", "linen-vs-nnx --vary scan_layers=true,false"),
)
