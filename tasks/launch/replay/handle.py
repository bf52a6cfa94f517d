"""The handle of a replayed log: a local run's handle, because the replay is a process on this machine."""

from tasks.launch.local.handle import HANDLE as HANDLE
