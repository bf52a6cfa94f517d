"""The backend that replays stored logs as jobs on this machine; the player's process runs like a local trainer."""
