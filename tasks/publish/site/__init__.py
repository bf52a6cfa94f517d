"""Writes the pages of a store: comparisons, index, history and bisections."""
