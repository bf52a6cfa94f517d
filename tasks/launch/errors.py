"""The exception of this package, for runs that cannot be started or followed."""


class LaunchError(RuntimeError):
    """A run that cannot be started or followed; the message says what to do."""
