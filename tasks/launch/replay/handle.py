"""The handle of a replayed log: its player is a process of this machine."""

from tasks.launch.local.handle import HANDLE as HANDLE
