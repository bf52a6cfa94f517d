"""Two programs take turns in random order until decided; failures name the arm and the rounds."""

import random
from pathlib import Path

import pytest

from maxview_probe.turns.paired_times import Rule
from maxview_probe.turns.take_turns import Broken, Duet, TurnsSettings, make_draws, take_turns
from maxview_probe.turns.timed_program import OutOfMemory, Turn

pytestmark = pytest.mark.flows

RULE = Rule(0.01, 0.015, 0.005)
SEED = 3


class Arm:
    """Takes `step_s` per step, ± 0.2 % per executable; no time passes."""

    compile_s, peak_bytes = 0.0, None

    def __init__(self, step_s: float, log: list[str], name: str, *, fails_at: int = 0, most_loaded: int = 2):
        self.step_s, self.log, self.name, self.fails_at = step_s, log, name, fails_at
        self.most_loaded, self.turns = most_loaded, 0
        self.random = random.Random(name)

    def load(self) -> float:
        self.log.append(f"load {self.name}")
        loaded = sum(line.startswith("load") for line in self.log) - sum(line.startswith("unload") for line in self.log)
        if loaded > self.most_loaded:
            self.log.pop()
            raise OutOfMemory("RESOURCE_EXHAUSTED")
        self.own = self.random.gauss(1.0, 0.002)
        return 0.0

    def turn(self, steps: int) -> Turn:
        self.turns += 1
        if self.turns == self.fails_at:
            raise ValueError("its step failed: it crashed")
        self.log.append(self.name)
        return Turn(self.step_s * self.own, self.step_s)

    def unload(self) -> None:
        if self.log.count(f"load {self.name}") > self.log.count(f"unload {self.name}"):
            self.log.append(f"unload {self.name}")


class Crashing(Arm):
    """Its memory runs out in its third turn."""

    def turn(self, steps: int) -> Turn:
        if self.turns == 2:
            raise OutOfMemory("its step failed: RESOURCE_EXHAUSTED")
        return super().turn(steps)


def duet(log: list[str], *, slower: float = 1.0, **given: int) -> Duet:
    return Duet([Arm(0.1, log, "a"), Arm(0.1 * slower, log, "b", **given)], chance=random.Random(SEED))


def test_a_slower_program_is_found_after_few_draws() -> None:
    found = make_draws(duet([], slower=1.03), RULE, 60.0, lambda _: None)
    assert found.decided
    assert found.wall.low < 0.0296 < found.wall.high  # ln 1.03
    assert found.draws <= 12


def test_equal_programs_are_the_same() -> None:
    found = make_draws(duet([]), RULE, 60.0, lambda _: None)
    assert found.decided
    assert -0.015 < found.wall.low < found.wall.high < 0.015


def test_a_round_has_one_turn_of_each_in_random_order() -> None:
    log: list[str] = []
    duet(log).draw(200, 1)
    turns = [line for line in log if line in "ab"]
    pairs = [turns[n] + turns[n + 1] for n in range(0, len(turns), 2)]
    assert set(pairs) == {"ab", "ba"}
    assert 60 < pairs.count("ab") < 140  # 8.5 standard deviations


def test_programs_that_do_not_fit_together_run_one_after_the_other() -> None:
    log: list[str] = []
    arms = [Arm(0.1, log, "a", most_loaded=1), Arm(0.1, log, "b", most_loaded=1)]
    found = make_draws(Duet(arms), RULE, 60.0, lambda _: None)
    assert found.alone
    assert found.decided


def test_a_crash_names_the_arm_and_the_rounds() -> None:
    with pytest.raises(Broken, match="it crashed after 6 rounds") as caught:
        make_draws(duet([], slower=1.008, fails_at=10), RULE, 60.0, lambda _: None)
    assert caught.value.arm == 1


def test_memory_that_runs_out_in_a_turn_names_the_arm() -> None:
    log: list[str] = []
    with pytest.raises(Broken, match=r"memory: .*: RESOURCE_EXHAUSTED") as caught:
        make_draws(Duet([Arm(0.1, log, "a"), Crashing(0.1, log, "b")]), RULE, 60.0, lambda _: None)
    assert caught.value.arm == 1


def test_the_running_program_is_noted_with_the_rounds_before() -> None:
    notes: list[tuple[int, int]] = []
    arms = duet([]).arms
    Duet(arms, note=lambda arm, rounds: notes.append((arm, rounds))).draw(2, 1)
    assert [rounds for _, rounds in notes] == [0, 0, 0, 0, 1, 1]
    assert {arm for arm, _ in notes[2:4]} == {0, 1}


def test_a_folder_without_a_recording_is_an_error_of_its_arm(tmp_path: Path) -> None:
    settings = TurnsSettings(str(tmp_path), str(tmp_path), ("old", "new"), 1.0, 0.01, 0.015, 0.005)
    found = take_turns(settings, lambda _: None)
    assert found["arm"] == "old"
    assert "was not kept" in found["error"]
