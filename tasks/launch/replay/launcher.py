"""The backend that replays logs: a player is a process like a trainer."""

from tasks.launch.local.launcher import LAUNCHER as LAUNCHER
