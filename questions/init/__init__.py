"""The question `init`: what a command of a trainer does in a short run, as a comparison's file in the user's clone.

In: a typed command. Out: `.maxview/comparisons/NAME.yml`, and the lines that tell what was seen.
Read first: watch_command.py.
"""

from configs.questions import Question

QUESTION = Question(
    command="questions.init.command:init",
    summary="Watch a command's short run, and write its comparison.",
    group="Start",
    read_typed="questions.init.command:read_typed",
    examples=("-- python train.py", "--steps 50 -- python -m mine.train"),
)
