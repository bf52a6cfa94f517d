"""What the terminal shows of comparisons, checkpoints, logs and configs."""
