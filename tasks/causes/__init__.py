"""Explains how two observed arms differ: in tensors, programs, memory and time, with the commits of source lines."""
