"""In: comparisons. Out: their remarks as a SARIF log, which code hosts show at the lines of a pull request.

SARIF 2.1.0: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from collections.abc import Sequence
from typing import Any

from tasks.metrics.table import METRICS
from tasks.publish.ci.annotations import Annotation, annotate
from tasks.records.compared_case import ComparisonRecord

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"error": "error", "warning": "warning", "notice": "note"}


def sarif_log(records: Sequence[ComparisonRecord]) -> dict[str, Any]:
    """Return the log as data for JSON; each rule is a row of a comparison."""
    found = [one for record in records for one in annotate(record)]
    titles = {metric.name: metric.title for metric in METRICS} | {"died": "A run died"}
    rules = [
        {"id": name, "shortDescription": {"text": titles.get(name, name)}}
        for name in dict.fromkeys(one.rule for one in found)
    ]
    tool = {"driver": {"name": "maxview", "rules": rules}}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": tool, "results": [_result(one) for one in found]}]}


def _result(one: Annotation) -> dict[str, Any]:
    result: dict[str, Any] = {"ruleId": one.rule, "level": LEVELS[one.level], "message": {"text": one.message}}
    if one.place is not None:
        where = {"artifactLocation": {"uri": one.place.file}, "region": {"startLine": one.place.line}}
        result["locations"] = [{"physicalLocation": where}]
    return result
