"""Compares two compiled programs without running them: their work, their memory, and their differences by cost."""
