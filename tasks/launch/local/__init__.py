"""The backend that runs trainers, and replays of stored logs, as supervised processes on this machine."""
