"""The trainer: data, step, optimizer, checkpoints and log, for a decoder in either API."""
