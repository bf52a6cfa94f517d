"""The command line `maxview`: its commands, its live view, and every outcome turned into an exit status."""
