"""The question `cross_restore` lets one arm's MaxText restore the other arm's checkpoint and train on.

In: two runs of MaxText on this machine. Out: `CrossRestore`.
Read first: cross_maxtext.py.
"""

from configs.questions import Question

QUESTION = Question(
    after_run="questions.cross_restore.steps:restore_after_run",
)
