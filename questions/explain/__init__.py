"""The question `explain` explains why two arms differ: tensors, programs, memory, time, commits and source lines.

In: two arms that can run again here, or their observations. Out: `Explanation`.
Read first: explain_arms.py.
"""

from configs.questions import Question

QUESTION = Question(
    command="questions.explain.command:explain",
    summary="Say why two arms differ: tensor, operations, lines, commits.",
    examples=("linen-vs-nnx", "maxview-out/runs/A maxview-out/runs/B --out kit"),
    explain_plans="questions.explain.explain_arms:explain_plans",
    after_case="questions.explain.steps:explain_case",
    suggests_when="blocked",
    suggest="questions.explain.suggest:suggest",
    purpose="This command finds out why the two differ",
)
