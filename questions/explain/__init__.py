"""The extension `explain` explains why two arms differ: tensors, programs, memory, time, commits and source lines.

In: two arms that can run again here, or their observations. Out: `Explanation`.
Read first: explain_arms.py.
"""

from configs.extensions import Extension

EXTENSION = Extension(
    command="questions.explain.command:explain",
    summary="Say why two arms differ: tensor, operations, lines, commits.",
    examples=("linen-vs-nnx", "maxview-out/runs/A maxview-out/runs/B --out kit"),
    after_case="questions.explain.steps:explain_case",
)
