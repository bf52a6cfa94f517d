"""The table of steps: rows of numbers, their forms, and the steps that stalled."""
