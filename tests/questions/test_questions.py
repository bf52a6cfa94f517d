"""What the questions register: packages, functions, commands."""

from dataclasses import asdict
from pathlib import Path

import pytest

import questions
from configs.questions import find_flow, import_function, load_questions


def test_every_package_of_a_question_is_listed() -> None:
    folder = Path(questions.__path__[0])
    assert {path.parent.name for path in folder.glob("*/__init__.py")} == set(questions.QUESTIONS)


@pytest.mark.parametrize("name", questions.QUESTIONS)
def test_the_places_of_a_question_hold_functions_that_exist_in_its_own_packages(name: str) -> None:
    question = load_questions()[name]
    texts = ("summary", "group", "examples", "launches_jobs", "suggests_when", "purpose", "served")
    places = [value for field, value in asdict(question).items() if field not in texts and value]
    assert places
    for place in places:
        assert place.startswith(f"questions.{name}.")
        assert callable(import_function(place))


def test_a_command_has_the_name_of_its_question_and_examples() -> None:
    for name, question in load_questions().items():
        if question.command:
            assert question.summary
            assert import_function(question.command).__name__ == name
            assert question.examples


def test_a_flow_is_found_in_the_pipeline_or_in_a_question() -> None:
    for name in ("compare", "bisect"):
        assert find_flow(name).name == name  # type: ignore[attr-defined]
