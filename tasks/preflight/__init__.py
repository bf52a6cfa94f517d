"""Turns what a compiler left of two arms into their comparison: work and memory counted, differences ranked by cost."""
