"""The training step compiled ahead of time, for devices that this machine lacks."""
