"""The run form of a flow: the schema that `prefect deploy` sends to the server."""

from typing import Any

import pytest
from jsonschema import ValidationError, validate  # type: ignore[import-untyped]
from prefect import Flow
from prefect.utilities.callables import parameter_schema

from flows.compare import compare
from flows.ingest import ingest
from flows.reap import reap
from questions.nightly.flow import nightly
from questions.preflight.flow import preflight
from tasks.services.flow_names import show_name

pytestmark = pytest.mark.flows


@pytest.mark.parametrize("flow", [compare, ingest, nightly, preflight, reap], ids=lambda flow: flow.name)
def test_every_parameter_has_its_description(flow: Flow[Any, Any]) -> None:
    shown = parameter_schema(flow).properties
    assert shown
    assert [name for name, field in shown.items() if not field.get("description")] == []


def test_limits_and_choices_stay() -> None:
    shown = parameter_schema(compare).properties
    assert "main-vs-branch" in shown["comparison"]["enum"]
    assert shown["comparison"]["default"] == "linen-vs-nnx"
    assert next(iter(shown)) == "branch"  # the essential fields
    assert [field["position"] for field in shown.values()] == list(range(len(shown)))


def test_rare_options_are_a_group_in_order() -> None:
    """Essential fields come first; the others form a group, with limits and choices."""
    schema = parameter_schema(compare)
    assert list(schema.properties)[:5] == ["branch", "baseline", "repository", "cases", "target"]
    assert schema.properties["more"]["$ref"] == "#/definitions/CompareMore"
    rare = schema.definitions["CompareMore"]["properties"]
    assert rare["repeats"]["anyOf"][0] == {"type": "integer", "minimum": 1, "maximum": 100}
    assert "tiny" in rare["model"]["enum"]
    assert [field["position"] for field in rare.values()] == list(range(len(rare)))
    assert [name for name, field in rare.items() if not field.get("description")] == []


def test_names_are_dropdowns_that_refuse_typos() -> None:
    """The server validates a form's values against this schema before it creates a flow run."""
    for flow in (compare, preflight, nightly):
        schema = parameter_schema(flow).model_dump()
        untouched = {name: field["default"] for name, field in schema["properties"].items()}
        for good in (untouched, {}, {"cases": ["03_dropout", "01_base"]}, {"target": "v6e-32"}):
            validate(good, schema)
        for bad in ({"cases": ["dropout"]}, {"target": "v6"}):
            with pytest.raises(ValidationError, match=r"is not valid|is not one of"):
                validate(bad, schema)
    for parameters in ({"more": {"model": "tinny"}}, {"comparison": "linen-vs-nn"}, {"more": {"repeats": 101}}):
        with pytest.raises(ValidationError):
            validate(parameters, parameter_schema(compare).model_dump())


def test_a_name_is_one_line_of_inert_text() -> None:
    assert show_name("01_base: main vs feat/x on cpu") == "01_base: main vs feat/x on cpu"
    assert show_name("a\n\x1b]0;title\x07\u202egpj.exe") == "a␊␛]0;title␇‹U+202E›gpj.exe"
    assert len(show_name("x" * 10_000)) < 500
