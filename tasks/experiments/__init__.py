"""Asks both arms' programs directly: do they compute one function, and which one is faster."""
