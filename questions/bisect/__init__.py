"""The extension `bisect` finds the commit or the package version that changed a metric.

In: a good and a bad version. Out: `Bisection` and its page.
Read first: search.py.
"""

from configs.extensions import Extension

EXTENSION = Extension(
    command="questions.bisect.command:bisect",
    summary="Find the commit, or package version, that changed a metric.",
    examples=("main-vs-branch --good v1 --bad main --case 01_base", "main-vs-branch --good HEAD~8 --bad HEAD"),
    flow="questions.bisect.flow:bisect",
)
