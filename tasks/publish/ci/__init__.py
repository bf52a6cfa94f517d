"""Writes comparisons for CI systems: JUnit, SARIF, and the outputs and annotations of a GitHub workflow."""
