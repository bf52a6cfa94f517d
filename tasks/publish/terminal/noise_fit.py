"""Shows a `NoiseFit` as text for a terminal, and as the entry that configs/noise.yml has for a kind of device."""

from tasks.diff.examine.fit_noise import NoiseFit, scatter_quantiles
from tasks.records.text import counted, visible

ENTRY = """\
  In configs/noise.yml:

    {kind}:
      equal_runs: {equal_runs:.3g}
      weight: {weight:.2g}
      why: "{count} systems, {runs} equal runs each"
      # the other keys as they are"""


def show_noise_fit(fit: NoiseFit, kind: str) -> str:
    """Return a line per system, the distribution over the systems, and the entry of configs/noise.yml."""
    counts = sorted({one.runs for one in fit.systems})
    low, middle, high = (f"{100 * size:.2g}" for size in scatter_quantiles(fit.systems))
    lines = [
        f"Step times of {counted(len(fit.systems), 'system')}; scatter: standard deviation between equal runs",
        "",
        *(
            f"  {one.name:40} {counted(one.runs, 'run'):>8}  {one.seconds:9.4g} s  {100 * one.scatter:7.2g} %"
            for one in fit.systems
        ),
        "",
        f"  two equal runs differ by {low}, {middle} and {high} % (10, 50 and 90 % of the systems)",
        "",
        ENTRY.format(
            kind=kind, equal_runs=fit.equal_runs, weight=fit.weight, count=len(fit.systems),
            runs=str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}",
        ),
    ]  # fmt: skip
    return "\n".join(visible(line) if "\n" not in line else line for line in lines)
