"""The flow `verify` on a store: damage ends it as Failed, sound checkpoints are recorded, and both have artifacts."""

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

pytestmark = pytest.mark.flows

ROOT = Path(__file__).parent.parent.parent
SAVER = ROOT / "tests" / "tasks" / "verify" / "saver.py"
PROGRAM = """
import json, sys
from flows.verify import verify
states = [verify([sys.argv[1]], hours=24, return_state=True)]
(next(f for f in __import__("pathlib").Path(sys.argv[1]).rglob("9/items/_sharding"))).unlink()
states.append(verify([sys.argv[1]], again_after_h=0, return_state=True))
print(json.dumps([[state.name, state.message] for state in states]))
"""


@pytest.mark.long
@pytest.mark.by_hand
def test_a_store_is_proved_and_damage_is_a_result(user_environment: dict[str, str], tmp_path: Path) -> None:
    run = tmp_path / "out" / "runs" / "linen"
    subprocess.run([sys.executable, str(SAVER), str(run / "checkpoints")], check=True, capture_output=True, timeout=600)
    argv = [sys.executable, "-c", PROGRAM, str(tmp_path / "out")]
    done = subprocess.run(
        argv, env=user_environment, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [
        ["Sound", "2 checkpoints, all sound"],
        ["Damaged", "1 of 2 checkpoints not sound"],
    ]
    assert sorted(path.name for path in (run / "manifests").glob("*.json")) == [
        "0.json",
        "0.proof.json",
        "9.json",
        "9.proof.json",
    ]
    api = user_environment["PREFECT_API_URL"]
    found = httpx.post(f"{api}/artifacts/filter", json={"artifacts": {"key": {"any_": ["verify", "verify-rows"]}}})
    kinds = [artifact["type"] for artifact in found.json()]
    assert sorted(kinds) == ["markdown", "markdown", "table", "table"]
    assert any("items/\\_sharding: is missing" in str(artifact["data"]) for artifact in found.json())
