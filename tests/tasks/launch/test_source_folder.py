"""The run whose checkpoint another run restores as a proof, also if a dead run is repeated."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.launch.job import find_source_folder

pytestmark = pytest.mark.flows

PLANS: list[Any] = [
    SimpleNamespace(arm=arm, trainer="maxview", run_name=f"{arm}-r{repeat}") for repeat in range(2) for arm in "xy"
]
HELD = {"holds": True}
NOT_TRIED = {"holds": None, "evidence": "the other run's metrics have no step 8"}


class Runs:
    """A store with the second arm's results only."""

    def __init__(self, program: Any = None, *, exit_code: int | None = 0) -> None:
        self._program, self._exit_code = program, exit_code

    def run(self, name: str) -> Any:
        finished = self._exit_code == 0
        record = SimpleNamespace(program=self._program, is_finished=finished) if self._exit_code is not None else None
        known = record if name.startswith("y") and self._program is not None else None
        return SimpleNamespace(path=Path(name), read_record=lambda: known, read_program=lambda: self._program)


def test_a_run_restores_the_previous_runs_checkpoint() -> None:
    store: Any = Runs()
    sources = [find_source_folder(plan, PLANS, store) for plan in PLANS]
    assert sources == [None, Path("x-r0"), Path("y-r0"), Path("x-r1")]
    assert find_source_folder(PLANS[2], [PLANS[0], PLANS[2]], store) is None  # the same arm twice


@pytest.mark.parametrize(
    ("crossing", "partner"),
    [(NOT_TRIED, Path("y-r0")), (HELD, None), ({"holds": False}, None), (None, None)],
)
def test_a_repeated_first_run_restores_from_a_second_run_that_could_not(crossing: Any, partner: Any) -> None:
    store: Any = Runs({"cross_restore": crossing})
    assert find_source_folder(PLANS[0], PLANS, store) == partner
    assert find_source_folder(PLANS[2], PLANS, store) == Path("y-r0")
    assert find_source_folder(PLANS[0], PLANS[:1], store) is None


def test_only_a_finished_second_run_is_restored() -> None:
    not_recorded: Any = Runs({"cross_restore": NOT_TRIED}, exit_code=None)  # its flow was killed
    assert find_source_folder(PLANS[0], PLANS, not_recorded) == Path("y-r0")
    stopped: Any = Runs({"cross_restore": NOT_TRIED}, exit_code=143)  # it is repeated, and restores again
    assert find_source_folder(PLANS[0], PLANS, stopped) is None
    still_training: Any = Runs({"cross_restore": None}, exit_code=None)
    assert find_source_folder(PLANS[0], PLANS, still_training) is None
