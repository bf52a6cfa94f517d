"""The backend that runs trainers, and players of stored logs, as supervised processes on this machine."""
