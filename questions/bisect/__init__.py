"""The question `bisect` finds the commit or the package version that changed a metric.

In: a good and a bad version. Out: `Bisection` and its page.
Read first: search.py.
"""

from configs.questions import Question

QUESTION = Question(
    command="questions.bisect.command:bisect",
    summary="Find the commit, or package version, that changed a metric.",
    examples=("main-vs-branch --good v1 --bad main --case 01_base", "main-vs-branch --good HEAD~8 --bad HEAD"),
    flow="questions.bisect.flow:bisect",
    launches_jobs=True,
    after_regression="questions.bisect.flow:find_culprit",
    suggests_when="differs",
    suggest="questions.bisect.suggest:suggest",
    purpose="This command trains commits between the two until it finds the first one that changed this",
    served=r"bisections/[^/]+/[^/]+/[^/]+/index\.html",
)
