"""In: comparisons. Out: a JUnit report, which CI systems list as tests: a suite per case, a test per judged row.

The form that they read: https://github.com/testmoapp/junitxml
"""

from collections.abc import Sequence
from xml.etree import ElementTree as xml

from tasks.diff.judge.metric_rows import NOT_JUDGED
from tasks.publish.ci.annotations import annotate
from tasks.publish.content.verdict_words import name_row
from tasks.records.compared_case import ComparisonRecord
from tasks.records.text import visible

FAILED, OPEN = 1, 3  # statuses of a gate


def junit_report(records: Sequence[ComparisonRecord]) -> str:
    """Return the report as XML. With a gate, the gate is the only test: rows do not count by themselves."""
    root = xml.Element("testsuites", name="maxview")
    for record in records:
        suite = xml.SubElement(root, "testsuite", name=f"{record.comparison} {record.case}", timestamp=record.created)
        _add_tests(suite, record)
        tests = list(suite)
        counts = {"failures": "failure", "errors": "error", "skipped": "skipped"}
        suite.set("tests", str(len(tests)))
        for name, tag in counts.items():
            suite.set(name, str(sum(test.find(tag) is not None for test in tests)))
    xml.indent(root)
    return xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_tests(suite: xml.Element, record: ComparisonRecord) -> None:
    place = f"{record.comparison}.{record.case}"
    deaths = [one.message for one in annotate(record) if one.rule == "died"]
    for message in deaths:
        xml.SubElement(_test(suite, place, "runs"), "error", message=visible(message))
    if record.gate is not None:
        test = _test(suite, place, f"gate {record.gate.name}")
        if record.gate.status in (FAILED, OPEN):
            tag = "failure" if record.gate.status == FAILED else "skipped"
            xml.SubElement(test, tag, message=visible(record.gate.reason))
        return
    for row in record.rows:
        if row.verdict == NOT_JUDGED:
            continue
        test = _test(suite, place, name_row(row))
        if row.verdict in ("regressed", "changed") and not row.allowed:
            xml.SubElement(test, "failure", message=visible(f"{row.verdict}: {row.reason}"))
        elif row.verdict == "unknown":
            xml.SubElement(test, "skipped", message=visible(f"unknown: {row.reason}"))


def _test(suite: xml.Element, place: str, name: str) -> xml.Element:
    return xml.SubElement(suite, "testcase", classname=place, name=visible(name))
