"""What is said when a file cannot be read as a training log."""


class LogFormatError(ValueError):
    """A file that holds no log we can read: `file:line: what is wrong; what to do`."""
