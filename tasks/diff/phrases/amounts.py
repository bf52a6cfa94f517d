"""Amounts of evidence and time in words."""

ONE_RUN = "one run of each"  # text of the weakest evidence for a verdict
ONE_PROGRAM = "one program"  # text of the evidence that a time difference is noise: both arms run one program


def show_duration(seconds: float) -> str:
    """Return a duration as text, in a suitable unit: `90 s`, `2.5 minutes`, `15 minutes`, `2.0 hours`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = f"{seconds / 60:.0f}" if seconds >= 600 else f"{seconds / 60:.1f}".removesuffix(".0")
    return f"{minutes} minutes" if seconds < 120 * 60 else f"{seconds / 3600:.1f} hours"
