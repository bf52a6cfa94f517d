"""The backend that replays stored logs as jobs on this machine; the replaying process runs like a local trainer."""
