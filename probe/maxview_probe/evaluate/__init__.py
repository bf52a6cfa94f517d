"""Evaluates recorded programs in float64: whether two compute one function, and how far each rounds."""
