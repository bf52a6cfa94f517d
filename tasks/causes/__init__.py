"""Turns what was recorded of two arms into why they differ: tensors, programs, memory, time, commits of lines."""
