"""Explains how two observed arms (versions of a trainer) differ in tensors, program, memory and time."""
