"""Records an arm's training step inside the arm's own process: its program, its arguments and all its tensors."""
