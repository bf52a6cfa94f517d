"""What a loop that takes turns agrees on with the process that gives it the token."""

GO, DONE = "go", "done"  # pipes in the recorder's folder: steps of the next turn; a JSON object per turn
WARM = 5  # calls of the step before the first turn: programs are compiled, the first save is written
