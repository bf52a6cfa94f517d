"""The command line `maxview`: its commands, its live view, and its handling of Ctrl-C.

In: the words of a command line. Out: printed answers and an exit status.
Read first: app.py.
"""
