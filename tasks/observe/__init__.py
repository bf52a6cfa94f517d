"""An arm's training step, recorded in the arm's own process: its program, its arguments, every tensor of it."""
