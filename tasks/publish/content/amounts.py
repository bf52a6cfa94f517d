"""Shows seconds and rates with three significant digits."""


def show_seconds(seconds: float) -> str:
    """Return seconds with three significant digits; from 100 on as a whole number."""
    return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.3g} s"


def show_rate(bytes_per_s: float) -> str:
    """Return bytes per second with three significant digits."""
    rate, unit = (bytes_per_s / 1e9, "GB/s") if bytes_per_s >= 1e9 else (bytes_per_s / 1e6, "MB/s")
    return f"{rate:.3g} {unit}"
