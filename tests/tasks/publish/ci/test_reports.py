"""JUnit, SARIF and workflow commands of a regression, a death and a gate; the schema of a record."""

import json
from xml.etree import ElementTree as xml

import jsonschema
import pytest

from flows.cli.commands.schema import schema
from tasks.publish.ci.annotations import annotate
from tasks.publish.ci.junit import junit_report
from tasks.publish.ci.sarif import sarif_log
from tasks.publish.ci.workflow import step_outputs, workflow_commands
from tasks.records.compared_case import ComparisonRecord, GateResult
from tasks.records.run_end import LogError


def died(record: ComparisonRecord) -> ComparisonRecord:
    cause = LogError(type="NameError", message="x, y: 100 %", line=3, offset=9, place="model/layers.py:32 in norm")
    return record.replace(candidate=record.candidate.replace(exit_code=1, cause_of_death=cause))


def test_each_judged_row_is_a_test(record_002: ComparisonRecord) -> None:
    suite = xml.fromstring(junit_report([record_002])).find("testsuite")
    assert suite is not None
    tests = suite.findall("testcase")
    for word, tag in (("regressed", "failure"), ("changed", "failure"), ("unknown", "skipped")):
        wanted = [row.reason for row in record_002.rows if row.verdict == word]
        told = [found.get("message", "") for test in tests if (found := test.find(tag)) is not None]
        assert [text for text in told if text.startswith(f"{word}: ")] == [f"{word}: {reason}" for reason in wanted]
    assert len(tests) == sum(row.verdict != "not judged" for row in record_002.rows) > 0
    assert int(suite.get("failures", "")) == sum(test.find("failure") is not None for test in tests)


def test_with_a_gate_only_the_gate_counts(record_002: ComparisonRecord) -> None:
    for status, tag in ((0, None), (1, "failure"), (3, "skipped")):
        gate = GateResult(name="time=5%", status=status, reason="time: <measured>")  # type: ignore[arg-type]
        (test,) = xml.fromstring(junit_report([record_002.replace(gate=gate)])).iter("testcase")
        assert [child.tag for child in test] == [tag] * (tag is not None)
        assert test.get("name") == "gate time=5%"


def test_a_death_is_shown_at_its_line(record_002: ComparisonRecord) -> None:
    record = died(record_002)
    (remark,) = annotate(record)
    assert (remark.level, remark.place) == ("error", ("model/layers.py", 32))
    (command,) = workflow_commands([record])
    assert command.startswith("::error file=model/layers.py,line=32,title=maxview::")
    assert "100 %25" in command or "%" not in remark.message
    assert [line.partition("=")[0] for line in step_outputs([record])] == ["verdict", "headline"]
    assert next(step_outputs([record_002, record])).startswith("verdict=")
    (result,) = sarif_log([record])["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 32}
    assert xml.fromstring(junit_report([record])).find(".//testcase[@name='runs']/error") is not None


def test_a_record_fits_the_schema(record_002: ComparisonRecord, capsys: pytest.CaptureFixture[str]) -> None:
    schema()
    described = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(described)
    record = json.loads(record_002.model_dump_json())
    jsonschema.validate([record], described)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate([record | {"verdict": "fine"}], described)
