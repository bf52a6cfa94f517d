"""The commands of `maxview`: each is a function whose docstring is the help, and which returns the exit status.

Slow imports are inside the functions, so that help is fast.
"""
