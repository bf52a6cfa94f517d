"""Compares the compiled programs of two arms: counts work and memory, and ranks differences by cost."""
