"""The command line `maxview`: its commands, its live view, and its handling of Ctrl-C."""
