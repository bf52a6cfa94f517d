"""The trainer of both decoders: data, step, optimizer, checkpoints and log."""
