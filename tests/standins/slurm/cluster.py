"""Starts a real SLURM on loopback: munged, slurmctld and two slurmd, each with ports and folders of its own.

The daemons run in the foreground as children, and are ended by their process ids. Needs Debian's packages `slurm-wlm`
and `munge`; with `slurmdbd` and `mariadb-server` also the accounting.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

DAEMONS = ("munged", "slurmctld", "slurmd")
ACCOUNTING_DAEMONS = ("slurmdbd", "mariadbd")
START_S = 60.0
SAVE_S = 6.0  # slurmctld saves its state within 5 seconds; younger jobs and their numbers are forgotten
CONF = """\
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=2,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=1500
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
ReturnToService=2
MpiDefault=none
SlurmdTimeout=8
SlurmctldTimeout=8
MessageTimeout=5
KillWait=8
MinJobAge={forget_s}
{more}
NodeName=n[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{second}] CPUs=2 RealMemory=8000
PartitionName=main Nodes=ALL Default=YES MaxTime=300 PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=300 PriorityTier=10
PartitionName=short Nodes=ALL MaxTime=1
"""

# in which a job needs an account whose limits allow it
ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge.socket
AccountingStorageEnforce=limits,qos
"""
DATABASE = """\
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=root
StorageLoc=slurm
"""


def missing_daemons(names: Sequence[str] = DAEMONS) -> list[str]:
    """The daemons that are not installed."""
    return [name for name in names if shutil.which(name) is None]


class Cluster:
    """A running SLURM; `kill` and `start` of its daemons are the tests' faults.

    accounting: with slurmdbd and its database; the account `team` is this user's.
    """

    def __init__(self, folder: Path, *, forget_s: int = 300, accounting: bool = False) -> None:
        self.folder, self.conf = folder, folder / "slurm.conf"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._user = psutil.Process().username()
        for name in ("state", "logs", "spool-n1", "spool-n2"):
            (folder / name).mkdir(parents=True)
        controller, (first, second), (accounts, self._database) = free_ports(1)[0], free_ports(2), free_ports(2)
        self.conf.write_text(
            CONF.format(
                host=socket.gethostname().partition(".")[0], user=self._user, folder=folder, controller=controller,
                first=first, second=second, forget_s=forget_s,
                more=ACCOUNTING.format(port=accounts, folder=folder) if accounting else "",
            )
        )  # fmt: skip
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        try:
            self.start("munged")
            if accounting:
                self._start_accounting(accounts)
            self.start("slurmctld", "n1", "n2")
            # a node that has not answered yet is "idle*", and takes no job
            wait_for(lambda: set(self.tool("sinfo", "-h", "-N", "-o", "%t").split()) == {"idle"})
        except BaseException:
            self.close()
            raise

    def _start_accounting(self, port: int) -> None:
        """Start slurmdbd with an empty database; add the cluster, and an account of this user."""
        conf = self.folder / "slurmdbd.conf"  # slurmdbd reads it in the folder of slurm.conf
        conf.write_text(DATABASE.format(port=port, database=self._database, folder=self.folder, user=self._user))
        conf.chmod(0o600)
        make = ["mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]
        subprocess.run([*make, *self._database_options()], check=True, capture_output=True)
        self.start("mariadbd")
        wait_for((self.folder / "database.socket").exists)
        self.start("slurmdbd")
        wait_for(lambda: "loopback" in self.tool("sacctmgr", "-i", "add", "cluster", "loopback"))
        self.tool("sacctmgr", "-i", "add", "account", "team", "Cluster=loopback")
        self.tool("sacctmgr", "-i", "add", "user", self._user, "Account=team", "Cluster=loopback")

    def limit_account(self, **limits: int) -> None:
        """Set limits of the account `team`, for example MaxJobs=2; -1: none."""
        changed = [f"{name}={value}" for name, value in limits.items()]
        self.tool("sacctmgr", "-i", "modify", "account", "team", "set", *changed)

    def _database_options(self) -> list[str]:
        return [f"--datadir={self.folder / 'database'}", f"--user={self._user}"]

    def start(self, *names: str) -> None:
        """Start daemons: munged, slurmctld, slurmdbd, mariadbd, and a slurmd by the name of its node."""
        for name in names:
            with (self.folder / "logs" / f"{name}.log").open("ab") as log:
                self._processes[name] = subprocess.Popen(
                    self._argv(name), env=os.environ | {"SLURM_CONF": str(self.conf)}, stdin=subprocess.DEVNULL,
                    stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip
            if name == "munged":
                wait_for((self.folder / "munge.socket").exists)

    def _argv(self, name: str) -> list[str]:
        if name == "munged":
            files = {"socket": "munge.socket", "key-file": "munge.key", "pid-file": "munged.pid", "seed-file": "seed"}
            options = [f"--{key}={self.folder / file}" for key, file in files.items()]
            return ["munged", "--foreground", "--force", *options, f"--log-file={self.folder / 'logs' / 'munge'}"]
        if name == "mariadbd":
            place = [
                f"--port={self._database}",
                "--bind-address=127.0.0.1",
                f"--socket={self.folder / 'database.socket'}",
            ]
            return ["mariadbd", "--no-defaults", *self._database_options(), *place]
        return [name, "-D"] if name.startswith("slurm") else ["slurmd", "-D", "-N", name]

    def kill(self, name: str) -> None:
        """Kill a daemon by SIGKILL; the jobs of a slurmd go on. slurmctld has saved its state before."""
        if name == "slurmctld":
            time.sleep(SAVE_S)
        self._processes[name].kill()
        self._processes.pop(name).wait()

    def start_missing(self) -> None:
        """Start the daemons that a failed test has left killed."""
        self.start(*(name for name in ("slurmctld", "n1", "n2") if name not in self._processes))

    def tool(self, *argv: str) -> str:
        """The output of one of SLURM's commands, also if it fails."""
        environment = os.environ | {"SLURM_CONF": str(self.conf)}
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout + done.stderr

    def close(self) -> None:
        """End all jobs and daemons, and every process that a slurmd has left."""
        if "slurmctld" in self._processes:
            self.tool("scancel", "--me", "--signal=KILL")
        for process in psutil.process_iter(["cmdline", "environ"]):
            environ = process.info["environ"] or {}
            if environ.get("SLURM_CONF") == str(self.conf) and "SLURM_JOB_ID" in environ:
                process.kill()
        for process in reversed(self._processes.values()):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for left in psutil.process_iter(["cmdline", "environ"]):  # slurmstepd, a child of no daemon
            if (left.info["environ"] or {}).get("SLURM_CONF") == str(self.conf):
                left.kill()


def free_ports(count: int) -> tuple[int, ...]:
    """Numbers of free TCP ports in a row."""
    while True:
        sockets = [socket.socket() for _ in range(count)]
        try:
            sockets[0].bind(("127.0.0.1", 0))
            first = sockets[0].getsockname()[1]
            for number, one in enumerate(sockets[1:], 1):
                one.bind(("127.0.0.1", first + number))
            return tuple(range(first, first + count))
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()


def wait_for(condition: Callable[[], object], seconds: float = START_S) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)
