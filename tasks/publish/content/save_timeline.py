"""Draws the lives of checkpoints (announced, saved, committed, proved) as bars on one time axis, and in words.

An arm is one of the two compared versions.
"""

from collections.abc import Callable

from configs.frozen import Frozen
from tasks.publish.content.amounts import show_rate, show_seconds
from tasks.records.checkpoint_proof import CheckpointLife, LifeSpan
from tasks.records.compared_case import ArmSummary, ComparisonRecord

WIDTH = 1000.0  # of the time axis, in the unit of all x and widths
MIN_WIDTH = 3.0  # least width of a bar
LATER = 1.5  # the axis has a break before late proofs if they end later than the saves by this factor
BREAK = 0.94  # x of the break, as a share of the width


class LifeBar(Frozen):
    """One part of a checkpoint's life: a span such as the blocking save, or its commit."""

    part: str  # determines the colour
    x: float
    width: float
    words: str  # tooltip


class LifeLine(Frozen):
    """One save of a step; `words`: the life in one line."""

    title: str
    bars: tuple[LifeBar, ...]
    words: str


class Timeline(Frozen):
    """Every save of both arms on one scale; times are in seconds since the beginning of the save's run."""

    lines: dict[str, tuple[LifeLine, ...]]  # by name of the arm
    begin_s: float  # at the left edge
    end_s: float  # at the right edge, or at the break
    broken: bool  # whether there is a break


def draw_lives(record: ComparisonRecord) -> Timeline | None:
    """Return the timeline of both arms' saves; None if no save and no proof has a time."""
    arms = (record.baseline, record.candidate)
    lives = [life for arm in arms for life in arm.lives]
    saved = [moment for life in lives for moment in _saving_moments(life)]
    proved = [moment for life in lives for span in life.spans for moment in _ends(span)]
    if not saved and not proved:
        return None
    begin, end = min(saved or proved), max(saved or proved)
    last = max(proved, default=end)
    broken = last - begin > LATER * (end - begin) and bool(saved)
    end = max(end if broken else max(end, last), begin + 1e-3)
    per_second = WIDTH * (BREAK if broken else 1.0) / (end - begin)

    def draw_bar(part: str, start: float, seconds: float, words: str) -> LifeBar:
        later = start > end  # drawn to the right of the break
        place = WIDTH * (BREAK + 1) / 2 if later else (start - begin) * per_second
        x = min(WIDTH - MIN_WIDTH, max(0.0, place))
        width = MIN_WIDTH if later else min(WIDTH - x, max(MIN_WIDTH, seconds * per_second))
        return LifeBar(part=part, x=round(x, 2), width=round(width, 2), words=words)

    lines = {arm.name: tuple(_line(arm, life, draw_bar) for life in arm.lives) for arm in arms}
    return Timeline(lines=lines, begin_s=begin, end_s=end, broken=broken)


def _ends(span: LifeSpan) -> tuple[float, float]:
    return span.begin_s, span.begin_s + span.seconds


def _saving_moments(life: CheckpointLife) -> list[float]:
    ends = [moment for span in life.spans if span.part in ("blocking", "background") for moment in _ends(span)]
    return ends + [moment for moment in (life.announced_s, life.committed_s) if moment is not None]


def _line(arm: ArmSummary, life: CheckpointLife, draw_bar: Callable[[str, float, float, str], LifeBar]) -> LifeLine:
    bars = [draw_bar(span.part, span.begin_s, span.seconds, describe_span(span)) for span in life.spans]
    if life.committed_s is not None:
        bars.append(draw_bar("committed", life.committed_s, 0.0, f"committed {show_seconds(life.committed_s)}"))
    run = f", run {life.run + 1}" if len(arm.runs) > 1 else ""
    again = f", save {life.nth}" if life.overwritten or life.nth > 1 else ""
    return LifeLine(title=f"step {life.step}{run}{again}", bars=tuple(bars), words=describe_life(life))


def describe_span(span: LifeSpan) -> str:
    """Return a part of a life in words: `manifest 0.52 s, 14.1 MB/s`."""
    rate = f", {show_rate(span.bytes_per_s)}" if span.bytes_per_s else ""
    return f"{span.part} {show_seconds(span.seconds)}{rate}"


def describe_life(life: CheckpointLife) -> str:
    """Return a life in one line: times of announcement and commit, its parts, whether it was overwritten or retired."""
    words = [f"announced at {show_seconds(life.announced_s)}"] if life.announced_s is not None else []
    words += [describe_span(span) for span in life.spans if span.part in ("blocking", "background")]
    words += [f"committed at {show_seconds(life.committed_s)}"] if life.committed_s is not None else []
    proofs = [describe_span(span) for span in life.spans if span.part not in ("blocking", "background")]
    words += [f"proved: {', '.join(proofs)}"] if proofs else []
    words += ["overwritten: the run saved this step again"] if life.overwritten else []
    words += ["retired: deleted to keep newer ones"] if life.retired else []
    return "; ".join(words) or "nothing dates it"
