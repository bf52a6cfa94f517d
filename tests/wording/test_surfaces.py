"""Each surface says what its file holds."""

import pytest

from tests.wording.sentences import RENEW, SURFACES, exists, read_entries
from tests.wording.surfaces import FOLDER, write_surfaces


@pytest.fixture(scope="module")
def surfaces() -> dict[str, str]:
    return write_surfaces()


@pytest.mark.parametrize("name", ["terminal.txt", "details.txt", "summary.md"])
def test_the_wording_is_the_files(name: str, surfaces: dict[str, str]) -> None:
    assert surfaces[name] == (FOLDER / name).read_text(encoding="utf-8"), f"read the difference, then type: {RENEW}"


@pytest.mark.parametrize("surface", SURFACES)
def test_each_sentence_has_a_test(surface: str) -> None:
    assert not [name for name in read_entries(surface) if not exists(name)], f"type: {RENEW}"
