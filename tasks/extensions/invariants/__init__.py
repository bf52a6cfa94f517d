"""Invariants: do the settings of one trainer that must not change what is computed (its twins) compute one function."""
