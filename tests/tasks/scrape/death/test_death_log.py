"""The events in a log that ended the run, and those that did not."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tasks.records.log_reading import RunReading
from tasks.records.run_end import LogError
from tasks.scrape.death.death_log import MAX_FINDINGS, DeathLog
from tasks.scrape.dialects.maxtext.patterns import PATTERNS
from tasks.scrape.read_log import scrape_text
from tasks.scrape.window import Window, find_all
from tests.wording.sentences import Wording

TRACEBACK = 'Traceback (most recent call last):\n  File "/x/maxtext/a.py", line 3, in f\n    g()\n{error}'
CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"
HANDLING = "\nDuring handling of the above exception, another exception occurred:\n\n"
HBM = "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 33G of 31G hbm."
FATAL = (
    "F0418 00:00:09.000000 1351 client.h:80] Terminating process because the JAX distributed service detected fatal "
    "errors. This most likely indicates that another task died; see the other task logs for more details."
)


def read(logs: Any, *lines: str, code: int | None = 1) -> RunReading:
    data: bytes = logs.framed(*lines, code=code or 0)
    if code is None:
        data = data[: data.index(b"XPK End")]
    return scrape_text(data, name="x").runs[0]


def error_of(logs: Any, *lines: str, code: int | None = 1) -> LogError:
    error = read(logs, *lines, code=code).error
    assert error is not None
    return error


def raised(error: str) -> str:
    return TRACEBACK.format(error=error)


@pytest.mark.parametrize("joint", [CAUSED, HANDLING])
def test_the_class_of_a_chain_is_found_where_it_is_named(logs: Any, joint: str) -> None:
    chain = raised(HBM) + "\n" + joint + raised("RuntimeError: step 3 went wrong")
    error = error_of(logs, *logs.steps(3), chain)
    assert (error.type, error.message, error.kind) == ("RuntimeError", "step 3 went wrong", "device_oom")
    assert "that of jax.errors.JaxRuntimeError in line 8" in error.why


def test_the_last_exception_of_a_chain_counts_if_it_has_a_class(logs: Any) -> None:
    chain = raised("KeyError: 'a'") + "\n" + CAUSED + raised("NotImplementedError: b")
    assert error_of(logs, chain).kind == "not_implemented"


WEAK = {
    "at exit": "Error in atexit._run_exitfuncs:\n",
    "in a thread": "Exception in thread Thread-3 (_upload):\n",
    "in a task": "Task exception was never retrieved\nfuture: <Task finished name='Task-1'>\n",
    # asyncio shows the task with its exception, TensorStore's with places in its sources
    "in a task with a long message": "E0418 00:00:05.000000 1351 base_events.py:9] Task exception was never retrieved\n"
    f"future: <Task finished name='Task-1' exception=ValueError('{'x' * 2700}')>\n",
    "logged": "E0418 00:00:05.000000 135104514455360 async_checkpointer.py:260] Failed to run 3 operations\n",
    "with logging": "ERROR:root:upload failed, trying again\n",
}


@pytest.mark.parametrize("before", WEAK.values(), ids=WEAK)
def test_an_exception_that_ended_no_process_counts_only_if_alone(logs: Any, before: str) -> None:
    noise = before + raised("ConnectionError: metrics server")
    after = logs.line("done")
    assert read(logs, *logs.steps(3), noise, after, code=0).error is None
    assert read(logs, *logs.steps(3), noise, after, code=None).error is None
    alone = error_of(logs, *logs.steps(3), noise, after)
    assert (alone.type, bool(alone.why)) == ("ConnectionError", True)
    for lines in ([noise, raised("ValueError: real")], [raised("ValueError: real"), noise, after]):
        assert error_of(logs, *logs.steps(3), *lines).type == "ValueError"


def test_an_exception_logged_last_ended_the_run(logs: Any) -> None:
    lines = [*logs.steps(2), "E0418 00:00:05.000000 1351 train.py:99] giving up", raised("ValueError: real")]
    assert error_of(logs, *lines, code=None).type == "ValueError"


def test_exceptions_ignored_by_the_interpreter_never_count(logs: Any) -> None:
    noise = "Exception ignored in atexit callback <function f at 0x7f>:\n" + raised("RuntimeError: cannot join thread")
    assert read(logs, *logs.steps(2), noise).error is None


def test_a_survived_retry_is_not_the_cause_of_a_later_death(logs: Any) -> None:
    run = read(logs, raised("TimeoutError: metadata server"), *logs.steps(5))
    assert (run.error, run.fate) == (None, "other")


def test_the_first_of_several_hosts_to_die_counts(logs: Any, wording: Wording) -> None:
    hosts = [logs.line(f"[process={process}] Saving checkpoint at step 0") for process in (0, 1)]
    second = raised("jax.errors.JaxRuntimeError: UNAVAILABLE: Socket closed")
    error = error_of(logs, *hosts, *logs.steps(2), raised(HBM), raised("ValueError: late"), second)
    assert (error.kind, error.line) == ("device_oom", 9)
    assert "1 more only reports " in error.why
    wording("findings", error.why)


def test_the_same_exception_on_every_host_is_one(logs: Any) -> None:
    error = error_of(logs, *[raised("NotImplementedError: x")] * 4, raised("NotImplementedError: y"))
    assert (error.message, error.line) == ("x", 5)


def test_a_remote_death_counts_only_if_alone(logs: Any) -> None:
    error = error_of(logs, *logs.steps(2), FATAL, code=134)
    assert (error.type, error.kind) == ("Fatal", "other")


def test_a_fatal_error_is_not_explained_by_its_consequences(logs: Any) -> None:
    check = "F0418 00:00:09.000000 1351 array.h:41] Check failed: n < size (3 vs. 2)"
    error = error_of(logs, *logs.steps(2), check, "Fatal Python error: Aborted", code=134)
    assert error.message == "Check failed: n < size (3 vs. 2)"


@pytest.mark.parametrize(
    ("code", "lines", "kind", "name"),
    [
        (137, [], "killed", "SIGKILL"),
        (143, [], "killed", "SIGTERM"),
        (139, [], "other", "SIGSEGV"),
        (137, ["Last State: Terminated  Reason: OOMKilled"], "host_oom", "SIGKILL"),
        (137, ["Memory cgroup out of memory: Killed process 17273 (python3) total-vm:515860kB"], "host_oom", "SIGKILL"),
        (137, ["Pod ephemeral local storage usage exceeds the total limit of 10Gi."], "disk_full", "SIGKILL"),
        (143, ["Pod was terminated in response to imminent node shutdown."], "preempted", "SIGTERM"),
        (137, ["Command terminated by signal 9"], "killed", "SIGKILL"),
        (137, ["run.sh: line 18:    36 Killed                  python3 a.py"], "killed", "SIGKILL"),
        (143, ["W0418 00:00:09.000000 99 notifier.cc:89] SIGTERM caught at 2026-04-18T00:00"], "preempted", "SIGTERM"),
        (137, ["The node was low on resource: memory. Container main was using 35505620Ki"], "host_oom", "SIGKILL"),
    ],
)  # fmt: skip
def test_signals(logs: Any, code: int, lines: list[str], kind: str, name: str) -> None:
    run = read(logs, *logs.steps(4), *lines, code=code)
    assert run.error is not None
    assert (run.error.kind, run.error.type, run.fate) == (kind, name, kind)


# Kueue's event as in kubernetes-sigs/kueue#7350; the signal handler's line as in pytorch/xla#3947
@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Preempted to accommodate a workload (UID: 9f54, JobUID: a20d) due to prioritization in the ClusterQueue",
         "preempted"),
        ("TPU node was preempted", "preempted"),
        ("Taint manager: TaintManagerEviction: Marking for deletion Pod default/job-0", "preempted"),
        ("*** SIGTERM received by PID 7620 (TID 7620) on cpu 17 from PID 7408; stack trace: ***", "killed"),
        ("slurmstepd: error: *** STEP 150773.2 ON n1 CANCELLED AT 2026-06-25 DUE TO TIME LIMIT ***", "timeout"),
        ("E0511 18:18:50.796852 915 tpunetd_client.cc:311] Detected failure SLICE_FAILURE_CHIP_DRIVER_ERROR in e6",
         "other"),
    ],
)  # fmt: skip
def test_evictions_without_an_exit_code(logs: Any, line: str, kind: str) -> None:
    run = read(logs, *logs.steps(4), line, code=None)
    assert run.error is not None
    assert (run.error.kind, run.error.line) == (kind, 6)
    # an eviction that the run outlived is not a death
    assert read(logs, line, *logs.steps(4), code=None).error is None


def test_a_broken_connection_is_explained_by_the_eviction_before_it(logs: Any) -> None:
    notice = "W0418 00:00:09.000000 99 preemption_notifier.cc:89] SIGTERM caught at 2026-04-18T00:00:09"
    error = error_of(logs, *logs.steps(2), notice, raised("jax.errors.JaxRuntimeError: UNAVAILABLE: Socket closed"))
    assert (error.type, error.kind) == ("jax.errors.JaxRuntimeError", "preempted")
    assert "line 4 says: SIGTERM caught" in error.why
    assert error_of(logs, *logs.steps(2), notice, raised(HBM)).kind == "device_oom"


def test_a_run_that_stopped_early_without_an_error(logs: Any) -> None:
    stop = logs.line("Training stopped: Job received termination signal (SIGTERM).", source="train.py:1061")
    run = read(logs, *logs.steps(4), stop, code=0)
    assert run.error is not None
    assert (run.error.type, run.error.kind, run.fate) == ("StopTraining", "preempted", "preempted")
    for end in (
        "Target loss self.config.target_eval_loss=4.0 is achieved.",
        "You may have run out of training data. Received <class 'StopIteration'> exception: ()",
    ):
        assert read(logs, *logs.steps(4), logs.line(f"Training stopped: {end}"), code=0).fate == "finished"


def test_a_thread_that_logs_the_same_reason_after_the_stop_line_does_not_replace_it(logs: Any) -> None:
    """On a busy machine the threads of Orbax log their exceptions after the trainer has said why it stops."""
    stop = logs.line("Training stopped: No space left on device (free disk space)")
    header = logs.line("_SignalingThread.run() raised an exception: RESOURCE_EXHAUSTED", source="future.py:387")
    late = header.replace("I0418", "E0418") + "\n" + raised("ValueError: RESOURCE_EXHAUSTED: No space left on device")
    assert late.startswith("E0418")
    error = error_of(logs, *logs.steps(3), stop, late)
    assert (error.type, error.kind) == ("StopTraining", "disk_full")
    assert error.message == "No space left on device (free disk space)"


def test_the_stop_line_is_the_cause_and_not_its_consequences(logs: Any) -> None:
    stop = logs.line("Aborting training due to NaN loss.")
    assert error_of(logs, *logs.steps(4), stop, raised("RuntimeError: executor is shut down")).kind == "nan"


@pytest.mark.parametrize(
    "text",
    ["FATAL Flags parsing error:\n  Unknown command line flag 'stps'. Did you mean: steps ?",
     "usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --stps=3"],
)  # fmt: skip
def test_wrong_arguments(logs: Any, text: str) -> None:
    error = error_of(logs, text, code=2)
    assert (error.type, error.kind, "stps" in error.message) == ("ArgumentError", "configuration", True)


def test_an_exception_in_a_notebook(logs: Any) -> None:
    # google-deepmind/mujoco#1484: another form of frames, and the type before the header
    text = (
        "---------------------------------------------------------------------------\n"
        "XlaRuntimeError                           Traceback (most recent call last)\n"
        "Cell In[10], line 2\n----> 2 train(config)\n\n"
        "File ~/maxtext/MaxText/train.py:336, in train(config)\n    [335] ValueError: shown in the code\n\n"
        "XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 33G of 31G hbm."
    )
    error = error_of(logs, *logs.steps(2), text)
    assert (error.type, error.kind, error.line) == ("XlaRuntimeError", "device_oom", 12)


def test_exception_groups(logs: Any) -> None:
    group = (
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "/x/a.py", line 1, in <module>\n'
        "  |     main()\n"
        "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n"
        "  +-+---------------- 1 ----------------\n"
        "    | Traceback (most recent call last):\n"
        '    |   File "/x/a.py", line 2, in f\n'
        "    |     raise OSError(28, 'x')\n"
        "    | OSError: [Errno 28] No space left on device\n"
        "    +------------------------------------"
    )
    error = error_of(logs, *logs.steps(2), group)
    assert (error.type, error.kind) == ("OSError", "disk_full")


def test_endings_of_runs_without_an_end(logs: Any) -> None:
    planned = logs.line("Config param steps: 4", source="pyconfig.py:584")
    assert read(logs, *logs.steps(4), code=0).fate == "finished"
    assert read(logs, *logs.steps(4), code=None).fate == "cut_off"  # the pod's frame is open
    bare = "\n".join([planned, *logs.steps(4)]).encode() + b"\n"
    assert scrape_text(bare, name="x").runs[0].fate == "finished"
    assert scrape_text(bare[: bare.rindex(b"I0418")], name="x").runs[0].fate == "cut_off"
    assert scrape_text(bare[:-9], name="x").runs[0].fate == "cut_off"
    assert scrape_text("\n".join(logs.steps(4)).encode() + b"\n", name="x").runs[0].fate == "unknown"


WRAPPINGS: dict[str, Callable[[list[str]], str]] = {
    "one single line": " ".join,
    "kubectl --prefix": lambda lines: "".join(f"[pod/job-0-0/jax-tpu] {line}\n" for line in lines),
    # there, all of a pod's standard error is ERROR
    "Cloud Logging JSON lines": lambda lines: "".join(
        json.dumps({
            "textPayload": line, "severity": "ERROR", "insertId": str(n), "timestamp": f"2026-04-18T00:00:{n:02d}Z",
            "resource": {"labels": {"pod_name": "job-0-0"}},
        }) + "\n"
        for n, line in enumerate(lines)
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_the_cause_is_the_same_in_every_wrapping(logs: Any, wrapping: str) -> None:
    start = logs.line("System Information: Jax Version: 0.10.2")
    harmless = "2026-04-18 00:00:00.104797: E external/xla/cuda_platform.cc:51] failed call to cuInit: INTERNAL: 303"
    deaths = {
        "device_oom": [raised(HBM)],
        "not_implemented": [raised("NotImplementedError: Pure NNX support has not been implemented yet.")],
        "nan": [logs.line("Aborting training due to NaN loss.")],
        "preempted": [logs.line("Training stopped: Job received termination signal (SIGTERM).")],
        "unknown": [],
    }
    for kind, last in deaths.items():
        lines = "\n".join([start, harmless, *logs.steps(3), *last]).split("\n")
        run = scrape_text(WRAPPINGS[wrapping](lines).encode() + b"\n", name="x").runs[0]
        assert (run.fate, run.error is None) == (kind, kind == "unknown")


def test_endless_retries_use_constant_memory(logs: Any) -> None:
    log = DeathLog()
    text = (raised("TimeoutError: again") + "\n").encode() * 3000 + raised("ValueError: enough").encode() + b"\n"
    window = Window(text, 0, 1, 0, len(text), last=True)
    for name, match in find_all(PATTERNS, window, [(0, len(text))]):
        log.take(name, match, window)
    assert len(log.findings) <= MAX_FINDINGS
    assert (log.findings[0].type, log.findings[-1].type) == ("TimeoutError", "ValueError")


def test_a_job_retried_in_one_log(logs: Any) -> None:
    first: bytes = logs.framed(*logs.steps(6), raised(HBM), code=1)
    again = [logs.step(step) for step in range(4, 9)]
    second: bytes = logs.framed(*again, code=0)
    run = scrape_text(first + second, name="x").runs[0]
    assert (run.exit_code, run.error, run.fate) == (0, None, "finished")
    # the second try is running, or its end is missing: the first one's exit code is not the run's
    running = scrape_text(first + second[: second.index(b"XPK End")], name="x").runs[0]
    assert (running.exit_code, running.ended, running.error, running.fate) == (None, None, None, "cut_off")
    # it died before its first step
    dead: bytes = logs.framed(raised("NotImplementedError: no"), code=1)
    assert scrape_text(first + dead, name="x").runs[0].fate == "not_implemented"


def test_another_programs_error_is_not_the_cause(logs: Any) -> None:
    complaint = "gcloud: error: unrecognized arguments: --zone"
    assert error_of(logs, complaint, raised("NotImplementedError: no")).kind == "not_implemented"
    assert read(logs, complaint, *logs.steps(3)).error is None


PLAN = "I0418 00:00:01.000000 1351 pyconfig.py:584] Config param steps: {}"


@pytest.mark.parametrize(
    ("before", "error", "survived"),
    [
        ([], None, "RuntimeError"),  # the log does not show how many steps were planned
        ([PLAN.format(3)], None, "RuntimeError"),  # all of them were done
        ([PLAN.format(50)], "RuntimeError", None),
    ],
)
def test_an_exception_at_the_end_is_a_death_whatever_the_exit_code(
    before: list[str], error: str | None, survived: str | None, logs: Any
) -> None:
    """A shell reports 0 for `python train.py | tee log`, however Python ended."""
    run = read(logs, *before, *logs.steps(3), raised("RuntimeError: Data loader worker 3 died"), code=0)
    assert (run.error and run.error.type, run.survived and run.survived.type) == (error, survived)
    assert run.has_died is (error is not None)


def test_an_exception_before_the_first_step_ended_the_run(logs: Any) -> None:
    run = read(logs, raised("RuntimeError: no data"), code=0)
    assert run.has_died
    assert run.survived is None


def test_exceptions_before_later_steps_or_in_threads_are_not_an_end(logs: Any) -> None:
    retried = read(logs, *logs.steps(2), raised("TimeoutError: x"), logs.step(2), code=0)
    thread = read(logs, *logs.steps(2), "Exception in thread Thread-3 (_upload):\n" + raised("OSError: x"), code=0)
    assert [(run.error, run.survived) for run in (retried, thread)] == [(None, None)] * 2


@pytest.mark.parametrize(
    "end", ["Training stopped: No space left on device", raised("OSError: No space left on device")]
)
def test_a_retry_without_remaining_steps_ended_well(end: str, logs: Any) -> None:
    """The first attempt stopped at its last save; the second found every step done."""
    retried = logs.framed(PLAN.format(3), *logs.steps(3), end, code=1) + logs.framed(PLAN.format(3), code=0)
    (run,) = scrape_text(retried, name="x").runs
    assert (run.has_died, run.error, run.survived) == (False, None, None)
    assert run.steps.height == 3
