"""Each surface says what its file holds."""

import pytest

from tests.wording.surfaces import FOLDER, write_surfaces

RENEW = "uv run --group dev python -m tests.wording.surfaces"


@pytest.fixture(scope="module")
def surfaces() -> dict[str, str]:
    return write_surfaces()


@pytest.mark.parametrize("name", ["terminal.txt", "details.txt", "summary.md"])
def test_the_wording_is_the_files(name: str, surfaces: dict[str, str]) -> None:
    assert surfaces[name] == (FOLDER / name).read_text(encoding="utf-8"), f"read the difference, then type: {RENEW}"
