"""The table of steps: rows of numbers, the forms in which they are printed, and stalled steps."""
