"""Explains the differences of two observed arms: tensors, programs, memory, time, commits of lines."""
