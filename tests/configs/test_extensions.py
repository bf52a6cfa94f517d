"""What the extensions register: packages, functions, commands."""

from dataclasses import asdict
from pathlib import Path

import pytest

import questions
from configs.extensions import EXTENSIONS, find_flow, import_function, load_extensions


def test_every_package_of_an_extension_is_listed() -> None:
    folder = Path(questions.__path__[0])
    assert {path.parent.name for path in folder.glob("*/__init__.py")} == set(EXTENSIONS)


@pytest.mark.parametrize("name", EXTENSIONS)
def test_the_places_of_an_extension_hold_functions_that_exist_in_its_own_packages(name: str) -> None:
    extension = load_extensions()[name]
    texts = ("summary", "group", "examples")
    places = [value for field, value in asdict(extension).items() if field not in texts and value]
    assert places
    for place in places:
        assert place.startswith(f"questions.{name}.")
        assert callable(import_function(place))


def test_a_command_has_the_name_of_its_extension_and_examples() -> None:
    for name, extension in load_extensions().items():
        if extension.command:
            assert extension.summary
            assert import_function(extension.command).__name__ == name
            assert extension.examples


def test_a_flow_is_found_in_the_pipeline_or_in_an_extension() -> None:
    for name in ("compare", "bisect"):
        assert find_flow(name).name == name  # type: ignore[attr-defined]
