"""The one error of launching."""


class LaunchError(RuntimeError):
    """A run that cannot be started or followed; the message says what to do."""
