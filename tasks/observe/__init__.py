"""Records the training step of a trainer inside the trainer's process: the step's program, arguments and tensors."""
