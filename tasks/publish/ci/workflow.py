"""In: comparisons. Out: what a step of a GitHub workflow prints and returns.

Commands and files: https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions
"""

from collections.abc import Iterator, Sequence

from tasks.publish.ci.annotations import annotate
from tasks.publish.content.verdict_words import WORST_FIRST
from tasks.records.compared_case import ComparisonRecord


def workflow_commands(records: Sequence[ComparisonRecord]) -> Iterator[str]:
    """Yield a command per remark, which GitHub shows at its line: `::error file=model.py,line=12::…`."""
    for record in records:
        for one in annotate(record):
            where = f"file={_escape_value(one.place.file)},line={one.place.line}," if one.place else ""
            yield f"::{one.level} {where}title=maxview::{_escape(one.message)}"


def step_outputs(records: Sequence[ComparisonRecord]) -> Iterator[str]:
    """Yield the lines of the file $GITHUB_OUTPUT: `verdict` and `headline` of the worst case."""
    worst = min(records, key=lambda record: WORST_FIRST.index(record.verdict))
    yield f"verdict={'died' if worst.has_died else worst.verdict}"
    yield f"headline={' '.join(worst.headline.split())}"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_value(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")
