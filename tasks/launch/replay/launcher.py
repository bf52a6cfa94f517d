"""The launcher of replayed logs: the local one, because a player is a process on this machine like a trainer."""

from tasks.launch.local.launcher import LAUNCHER as LAUNCHER
