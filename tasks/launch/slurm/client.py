"""Calls SLURM's commands: submits, reads and ends jobs.

Reads `scontrol show job -o`, which every version prints alike, needs no accounting and shows one job. `squeue --json`
prints all jobs of the cluster in SLURM 22.05, and its fields have other types in each version since.
"""

import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence

from configs.frozen import Frozen
from tasks.launch import patience
from tasks.launch.backend import LaunchError, NotSubmitted
from tasks.launch.patience import NotAnswering, given_up, retry_outages
from tasks.records.run_end import DeathKind

TIMEOUT_S = 120.0  # of one command; the commands retry by themselves for some time
# A job's state after its end → kind of death; None: the job's own exit code tells how it ended.
# https://slurm.schedmd.com/job_state_codes.html
ENDS: dict[str, DeathKind | None] = {
    "COMPLETED": None,
    "FAILED": None,
    "BOOT_FAIL": "preempted",
    "NODE_FAIL": "preempted",
    "PREEMPTED": "preempted",
    "REQUEUED": "preempted",  # also a state before the end, of a job that SLURM starts again
    "CANCELLED": "killed",
    "DEADLINE": "timeout",
    "TIMEOUT": "timeout",
    "OUT_OF_MEMORY": "host_oom",
    "REVOKED": "killed",
}
# types of causes → kinds of death; maxview itself finds the first five
CAUSE_KINDS: dict[str, DeathKind] = {
    "AllocationEnded": "preempted",
    "StartLimit": "timeout",
    "CannotStart": "configuration",
    "NoLog": "configuration",
    "JobLost": "preempted",
    **{state: kind for state, kind in ENDS.items() if kind is not None},
}
_OUTAGE = re.compile(
    r"Unable to contact slurm controller|controller not responding|Connection refused|timed out|Zero Bytes|"
    r"temporarily unable|Transport endpoint|Unexpected message received",
    re.IGNORECASE,
)
_FIELD = re.compile(r"(?:^| )([A-Z][\w:/]*)=(.*?)(?= [A-Z][\w:/]*=|$)")  # a path may contain blanks
_PREFIX = re.compile(r"^(sbatch: )?(error: |fatal: )?(Batch job submission failed: |allocation failure: )?")
_UNKNOWN = re.compile(r"Invalid job id", re.IGNORECASE)
MUNGE = "unge"  # in complaints; munge is this machine's, and nobody restarts it
START_MUNGE = "start munge on this machine: `systemctl start munge`"
# part of a refusal by sbatch → what to type; the first part that fits
REMEDIES = {
    r"^(Assoc|QOS)\w+$": "a limit of your account or QOS; `sacctmgr show associations user=$USER` lists the limits",
    "account": "`sacctmgr show associations user=$USER` lists yours; set `account` of the target",
    "partition": "`sinfo` lists the partitions; set `partition` of the target",
    "qos": "`sacctmgr show qos` lists them; set `qos` of the target",
    "generic resource|gres": "`sinfo -o '%P %G'` lists them; set `gres` of the target",
    "time limit": "`sinfo -o '%P %l'` shows the limits; set a smaller time_limit_s in the target",
    "node config|node count": "`sinfo -o '%P %D %c %m %G'` shows what the nodes have",
    "munge|authentication|credential": START_MUNGE,
    "could not establish a configuration|configuration file|slurm.conf": "set SLURM_CONF to the path of slurm.conf",
}


class JobState(Frozen):
    """A job as SLURM shows it at one moment."""

    job_id: int
    state: str  # one of SLURM's, for example "RUNNING"
    reason: str = ""  # why it waits, or why it ended; "None" or "": SLURM names none
    exit_code: int | None = None  # of the batch script, like a shell: 128 + n after signal n
    nodes: str = ""  # as SLURM writes lists, for example "n[1-2]"
    output: str = ""  # path of the file of its standard output; "": not known
    restarts: int = 0  # how often SLURM has requeued it

    @property
    def over(self) -> bool:
        """Whether the job has ended and all its processes are gone."""
        return self.state in (*ENDS, "AllocationEnded") and self.state != "REQUEUED"


def read_job(job_id: int) -> JobState | None:
    """Return a job's state; None if SLURM has forgotten the job. Raises NotAnswering, LaunchError."""
    code, said, complaint = run_slurm(["scontrol", "show", "job", "-o", str(job_id)])
    if code == 0:
        found = dict(reversed(_FIELD.findall(said.strip())))  # of equal keys, the first is SLURM's own
        return JobState(
            job_id=job_id, state=found["JobState"], reason=found.get("Reason", ""), nodes=found.get("NodeList", ""),
            exit_code=_shell_code(found["ExitCode"]), output=found.get("StdOut", ""), restarts=int(found["Restarts"]),
        )  # fmt: skip
    if not _UNKNOWN.search(complaint):
        raise NotAnswering(f"SLURM does not answer: {last_line(complaint)}")
    # slurmctld forgets a job after MinJobAge (5 minutes), slurmdbd keeps it; many clusters have no slurmdbd
    code, said, _ = run_slurm(["sacct", "-j", str(job_id), "-X", "-n", "-P", "-o", "State,ExitCode,NodeList"])
    if code or not said.strip():
        return None
    state, status, nodes = said.splitlines()[-1].split("|")  # a requeued job has several lines
    return JobState(job_id=job_id, state=state.split()[0], exit_code=_shell_code(status), nodes=nodes)


def find_jobs(name: str) -> list[JobState]:
    """Return this user's jobs of that name that SLURM still knows. Raises NotAnswering, LaunchError without munge."""
    code, said, complaint = run_slurm(["squeue", "--me", "--noheader", "--states=all", f"--name={name}", "--format=%A"])
    if code and MUNGE in complaint:
        raise LaunchError(f"{last_line(complaint)}; {START_MUNGE}")
    if code:
        raise NotAnswering(f"SLURM does not answer: {last_line(complaint)}")
    return [job for number in said.split() if (job := read_job(int(number))) is not None]


def submit(options: Sequence[str], script: str, environment: Mapping[str, str], output: str) -> int:
    """Submit a job and return its number. Waits while SLURM does not answer. Raises LaunchError with a remedy.

    output: the path in the options; it tells whether an unanswered call has submitted the job.
    """
    name = next(word.partition("=")[2] for word in options if word.startswith("--job-name="))
    began = time.monotonic()
    while True:
        try:
            code, said, complaint = run_slurm(["sbatch", "--parsable", *options], script, environment)
        except NotAnswering as error:
            code, said, complaint = 1, "", f"timed out: {error}"
        if code == 0:
            return int(said.strip().splitlines()[-1].partition(";")[0])
        if not reports_outage(complaint):
            raise NotSubmitted(explain_refusal(complaint))
        for job in retry_outages(lambda: find_jobs(name)):
            if job.output == output:
                return job.job_id
        if time.monotonic() - began > patience.PATIENCE_S:
            raise given_up(NotAnswering(f"SLURM does not answer: {last_line(complaint)}"))
        time.sleep(patience.LOOK_EVERY_S)


def cancel(job_id: int) -> None:
    """Ask SLURM to end a job: SIGTERM, then SIGKILL after KillWait. Raises NotAnswering, LaunchError."""
    code, _, complaint = run_slurm(["scancel", str(job_id)])
    if code and not _UNKNOWN.search(complaint):
        raise NotAnswering(f"SLURM does not answer: {last_line(complaint)}")


def explain_refusal(complaint: str) -> str:
    """Return sbatch's message in one sentence, with a remedy."""
    lines = [_PREFIX.sub("", line.strip()) for line in complaint.splitlines() if line.strip()]
    for part, remedy in REMEDIES.items():
        found = [line for line in lines if re.search(part, line, re.IGNORECASE)]
        if found:
            return f"sbatch refuses the job: {found[-1]}; {remedy}"
    return f"sbatch refuses the job: {_PREFIX.sub('', last_line(complaint))}"


def run_slurm(
    argv: Sequence[str], text: str = "", environment: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    """Run one of SLURM's commands with `text` as its input; return (exit code, output, error output).

    environment: None: this process's. Raises NotAnswering after TIMEOUT_S, LaunchError if it is not installed.
    """
    program = shutil.which(argv[0])
    if program is None:
        cure = "use a login node of the cluster, or `apt install slurm-client`"
        raise NotSubmitted(f"{argv[0]} is not installed: {cure}")
    try:
        done = subprocess.run(
            [program, *argv[1:]], input=text, env=environment, timeout=TIMEOUT_S, capture_output=True, text=True,
            check=False, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise NotAnswering(f"{argv[0]} has not answered within {TIMEOUT_S:g} s") from error
    return done.returncode, done.stdout, done.stderr


def reports_outage(complaint: str) -> bool:
    """Return whether SLURM's controller does not answer for now; False: munge is away, which is this machine's."""
    return bool(_OUTAGE.search(complaint)) and MUNGE not in complaint


def last_line(text: str) -> str:
    """Return the last line of a command's error output."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it printed no message"


def _shell_code(status: str) -> int:
    code, _, signal = status.partition(":")
    return 128 + int(signal) if int(signal or 0) else int(code)
