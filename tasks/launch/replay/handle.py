"""The handle of a replayed log: the same as of a local run, because the player is a process on this machine."""

from tasks.launch.local.handle import HANDLE as HANDLE
