"""The address on which a server listens, and the address for its clients."""

import json
from pathlib import Path

import pytest

from tasks.services.up import Place, environment_of

pytestmark = pytest.mark.flows


@pytest.mark.parametrize(
    ("host", "reached"), [("127.0.0.1", "127.0.0.1"), ("10.0.0.7", "10.0.0.7"), ("0.0.0.0", "127.0.0.1")]
)
def test_a_server_on_all_interfaces_is_reached_by_loopback(host: str, reached: str, tmp_path: Path) -> None:
    place = Place(state=tmp_path, out=str(tmp_path), host=host, port=4200)
    assert place.url == f"http://{reached}:4200"
    assert environment_of(place, {})["PREFECT_API_URL"] == f"http://{reached}:4200/api"


def test_the_file_of_a_running_older_server_is_read(tmp_path: Path) -> None:
    place = Place(state=tmp_path, out=str(tmp_path), port=4300)
    older = {**json.loads(place.model_dump_json()), "pool": "maxview", "runs": 4}
    assert Place.model_validate_json(json.dumps(older)) == place
