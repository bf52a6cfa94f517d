"""Writes the pages of a store: comparisons, index, history, card and bisections."""
