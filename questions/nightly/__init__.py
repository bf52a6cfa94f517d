"""The extension `nightly` compares every case of every comparison once per night.

In: configs/nightly.yml. Out: `NightRecord`, a summary, a message and a comment.
Read first: questions/nightly/flow.py.
"""

from configs.extensions import Extension

EXTENSION = Extension(
    command="questions.nightly.command:nightly",
    summary="Run every case of every comparison in configs/nightly.yml.",
    group="Operate",
    examples=("", "--case 01_base --comparison linen-vs-nnx --target cpu"),
    flow="questions.nightly.flow:nightly",
)
