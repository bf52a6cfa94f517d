"""The launcher of replayed logs: the local backend's launcher, because a replay is a process on this machine."""

from tasks.launch.local.launcher import LAUNCHER as LAUNCHER
