"""One flow at a time works on a run: by a lock on one machine, by a claim of its flow run in a bucket."""

import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.read import CONFIG_ROOT
from tasks.launch.owners import handles_of, own, turn_of, unforgotten
from tasks.records.log_reading import RunReading
from tasks.records.plan import RunPlan
from tasks.records.run import RunRecord
from tasks.store.atomic import StoreError
from tasks.store.directories import RunDirectory
from tasks.store.json_records import run_record_to_json
from tasks.store.store import open_store

pytestmark = pytest.mark.flows

type MakePlan = Callable[..., RunPlan]

HOLD = """
import sys, time
from pathlib import Path
from tasks.store.locks import hold
with hold(Path(sys.argv[1]), lambda who: None):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _no_descriptor_stays_open() -> None:
    """Google's client keeps its connections."""


def never(why: str) -> None:
    pytest.fail(f"nobody is in the way: {why}")


def unknown(flow_run: str) -> str:
    return "unknown"


def record_of(directory: RunDirectory, exit_code: int) -> RunRecord:
    reading = RunReading(name=directory.run_name, format="maxview", exit_code=exit_code)
    return RunRecord(plan=None, arm="a", label="a", commit=None, log=str(directory.log), reading=reading)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.launch.owners.LOOK_EVERY_S", 0.02)
    monkeypatch.setattr("tasks.launch.owners.ASK_EVERY_S", 0.02)


@pytest.mark.usefixtures("quick")
def test_the_second_flow_waits_and_reuses_the_firsts_run(make_plan: MakePlan, directory: RunDirectory) -> None:
    plan, waited, found = make_plan("pass"), threading.Event(), []

    def second() -> None:
        with turn_of(plan, directory, ("two",), life_of=unknown, wait=lambda why: waited.set()) as finished:
            found.append(finished)

    with turn_of(plan, directory, ("one",), life_of=unknown, wait=never) as finished:
        assert finished is None
        thread = threading.Thread(target=second)
        thread.start()
        assert waited.wait(120)
        assert found == []
        written = record_of(directory, exit_code=0)
        directory.write_record(written)
    thread.join(120)
    assert [run_record_to_json(record) for record in found] == [run_record_to_json(written)]


@pytest.mark.usefixtures("quick")
def test_the_second_flow_repeats_a_failed_run(make_plan: MakePlan, directory: RunDirectory) -> None:
    directory.create().write_record(record_of(directory, exit_code=1))
    with turn_of(make_plan("pass"), directory, ("one",), life_of=unknown, wait=never) as finished:
        assert finished is None


@pytest.mark.usefixtures("quick")
def test_waiting_names_the_holder_and_ends_with_the_flow_or_a_killed_holder(
    make_plan: MakePlan, directory: RunDirectory
) -> None:
    class Ended(Exception):
        pass

    def end(why: str) -> None:
        raise Ended(why)

    argv = [sys.executable, "-c", HOLD, str(directory.create().path / ".flow")]
    holder = subprocess.Popen(argv, cwd=CONFIG_ROOT.parent, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with (
        pytest.raises(Ended, match=rf"^a-run: in use by process {holder.pid}; waiting$"),
        turn_of(make_plan("pass"), directory, (), life_of=unknown, wait=end),
    ):
        pytest.fail("it is held")
    holder.kill()
    with turn_of(make_plan("pass"), directory, (), life_of=unknown, wait=lambda why: None) as finished:
        assert finished is None
    holder.wait()
    holder.stdout.close()


@pytest.fixture
def machine(gcs_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], RunDirectory]:
    """machine(name): the run's folder as another machine has it."""

    def open_on(name: str) -> RunDirectory:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
        return open_store(gcs_url).run("a-run")

    return open_on


@pytest.mark.usefixtures("quick")
def test_in_a_bucket_a_run_is_taken_over_once_its_flow_run_is_over(
    make_plan: MakePlan, machine: Callable[[str], RunDirectory]
) -> None:
    first, second, plan = machine("one"), machine("two"), make_plan("pass")
    with turn_of(plan, first, ("one", "night"), life_of=unknown, wait=never):
        pass  # a lost machine: the kernel releases its lock here, but its claim stays
    stranger = turn_of(plan, second, ("two",), life_of=unknown, wait=never)
    with pytest.raises(StoreError, match=r"is being written on .* since"), stranger:
        pytest.fail("it is claimed")
    lives, whys = iter(["running", "running", "over"]), []
    life = {"one": "running", "night": "running"}

    def wait(why: str) -> None:
        whys.append(why)
        life["one"] = next(lives)

    with turn_of(plan, second, ("two",), life_of=life.__getitem__, wait=wait) as finished:
        assert finished is None
        second.check_claim()
    assert len(whys) == 3
    assert re.fullmatch(r"\S+: in use by \S+; waiting", whys[0])
    with pytest.raises(StoreError, match="taken over"):
        first.check_claim()


@pytest.mark.usefixtures("quick")
def test_in_a_bucket_take_over_takes_the_run_of_a_lost_machine(
    make_plan: MakePlan, machine: Callable[[str], RunDirectory]
) -> None:
    first, second, plan = machine("one"), machine("two"), make_plan("pass")
    with turn_of(plan, first, ("one", "night"), life_of=unknown, wait=never):
        pass  # a lost machine, with its Prefect server
    with turn_of(plan, second, ("two",), life_of=unknown, wait=never, take_over=True) as finished:
        assert finished is None
        second.check_claim()
    with pytest.raises(StoreError, match="taken over"):
        first.check_claim()


@pytest.mark.usefixtures("quick")
def test_in_a_bucket_a_run_of_a_running_flow_is_not_taken_over(
    make_plan: MakePlan, machine: Callable[[str], RunDirectory]
) -> None:
    class Waits(Exception):
        pass

    def wait(why: str) -> None:
        raise Waits(why)

    first, second, plan = machine("one"), machine("two"), make_plan("pass")
    with turn_of(plan, first, ("one", "night"), life_of=unknown, wait=never):
        lives = {"one": "unknown", "night": "running"}
        waiting = turn_of(plan, second, ("two",), life_of=lives.__getitem__, wait=wait, take_over=True)
        with pytest.raises(Waits, match="in use by "), waiting:
            pytest.fail("it is taken over")
        first.check_claim()


@pytest.mark.parametrize("flow_runs", [("one",), ("a cell's second", "night")])
def test_in_a_bucket_a_flow_run_in_another_pod_does_not_wait_for_itself(
    make_plan: MakePlan, machine: Callable[[str], RunDirectory], flow_runs: tuple[str, ...]
) -> None:
    first, second, plan = machine("one"), machine("two"), make_plan("pass")
    with turn_of(plan, first, ("one", "night"), life_of=unknown, wait=never):
        pass  # evicted, and put back into the queue
    with turn_of(plan, second, flow_runs, life_of=lambda flow_run: "running", wait=never) as finished:
        assert finished is None
        second.check_claim()
    with pytest.raises(StoreError, match="taken over"):
        first.check_claim()


@pytest.mark.usefixtures("quick")
def test_in_a_bucket_the_second_machine_finds_the_firsts_record(
    make_plan: MakePlan, machine: Callable[[str], RunDirectory]
) -> None:
    first, second, plan = machine("one"), machine("two"), make_plan("pass")
    with turn_of(plan, first, ("one",), life_of=unknown, wait=never):
        written = record_of(first, exit_code=0).replace(log=first.log_address)

        def finish(why: str) -> None:
            first.write_record(written)

        with turn_of(plan, second, ("two",), life_of=lambda flow_run: "running", wait=finish) as finished:
            assert finished is not None
            assert run_record_to_json(finished) == run_record_to_json(written)


def test_a_deleted_run_has_no_job_to_end(tmp_path: Path) -> None:
    store = open_store(tmp_path / "out")
    own("run", ("flow",), store)
    shutil.rmtree(store.path / "runs" / "run")
    assert unforgotten(store) == ["flow"]
    assert list(handles_of("flow", store)) == []
