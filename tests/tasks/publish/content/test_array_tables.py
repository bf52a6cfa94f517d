"""Tables of the arrays of two checkpoints: the arrays that MaxText's NNX adds to Linen's 39 are explained by name."""

import pytest

from tasks.publish.content.array_tables import count_roles, describe_alone, describe_counts, list_arrays
from tasks.publish.content.save_timeline import draw_lives
from tasks.records.checkpoint_proof import CheckpointLife, LifeSpan
from tasks.records.compared_case import ComparisonRecord
from tasks.records.compared_checkpoints import ArrayDifference, ArrayRole, CheckpointDifference, ValueDifference
from tests.wording.sentences import Wording

DTYPES = {"dtype": "float32", "other_dtype": "float32"}


def pair(role: ArrayRole, name: str, differing: int = 0) -> ArrayDifference:
    values = ValueDifference(values=8, differing=differing, norm=0.5 * differing, largest=0.5 * differing, where=(3,))
    shapes = {"shape": (8,), "other_shape": (8,)}
    return ArrayDifference(role=role, names=(name,), other_names=(name,), values=values, **shapes, **DTYPES)


@pytest.fixture
def found() -> CheckpointDifference:
    """12 parameters, their moments, 2 counts and the step against the same plus 30 streams and 42 arrays of AQT."""
    state = [pair("parameter", f"params.p{n}") for n in range(12)]
    state += [pair("optimizer", f"opt_state.{kind}.p{n}") for kind in ("mu", "nu") for n in range(12)]
    state += [pair("counter", name) for name in ("opt_state.0.count", "opt_state.2.count", "step")]
    extra = [ArrayDifference(role="random numbers", other_names=(f"nnx_aux.rngs.{n}.key",)) for n in range(30)]
    extra += [ArrayDifference(role="quantisation", other_names=(f"nnx_aux.Aqt_{n}.scale",)) for n in range(42)]
    return CheckpointDifference(step=9, path="/a/9", other_path="/b/9", arrays=(*state, *extra))


def test_every_array_is_counted_and_named(found: CheckpointDifference, wording: Wording) -> None:
    wording("parts", describe_counts(found))
    counts = {count.role: (count.here, count.there, count.equal, count.alone) for count in count_roles(found)}
    assert counts == {
        "parameter": (12, 12, 12, 0),
        "optimizer": (24, 24, 24, 0),
        "counter": (3, 3, 3, 0),
        "random numbers": (0, 30, 0, 30),
        "quantisation": (0, 42, 0, 42),
    }
    lines = list_arrays(found)
    assert len(lines) == 111
    assert sum("candidate alone: what quantisation keeps" in line.word for line in lines) == 42
    assert [line.split(":")[0] for line in describe_alone(found)] == ["only there"] * 2


def test_differing_and_missing_arrays_are_reported(found: CheckpointDifference, wording: Wording) -> None:
    lost = ArrayDifference(role="optimizer", names=("opt_state.mu.x",), shape=(4,), dtype="float32")
    changed = found.replace(arrays=(lost, pair("parameter", "params.x", differing=2)))
    one, two = list_arrays(changed)
    assert (one.verdict, one.word) == ("changed", "baseline alone: missing on the other side")
    assert two.word.startswith("2 of 8 values ")
    assert two.word.endswith(" 1 at [3]")
    wording("parts", two.word)
    assert (two.shapes, two.dtypes) == ("[8]", "float32")


def life(step: int, begin: float, proved: float) -> CheckpointLife:
    spans = (
        LifeSpan(part="blocking", begin_s=begin, seconds=1.0),
        LifeSpan(part="background", begin_s=begin + 1, seconds=9.0, bytes_per_s=5e6),
        LifeSpan(part="manifest", begin_s=proved, seconds=2.0),
    )
    return CheckpointLife(step=step, announced_s=begin, committed_s=begin + 10, spans=spans)


def test_timelines_of_both_arms_share_one_scale(record_002: ComparisonRecord) -> None:
    sides = {
        "baseline": record_002.baseline.replace(lives=(life(0, 100.0, 111.0),)),
        "candidate": record_002.candidate.replace(lives=(life(0, 100.0, 112.0), life(5, 140.0, 152.0))),
    }
    timeline = draw_lives(record_002.replace(**sides))
    assert timeline is not None
    assert (timeline.begin_s, timeline.end_s, timeline.broken) == (100.0, 154.0, False)
    (first,), (_, last) = timeline.lines[sides["baseline"].name], timeline.lines[sides["candidate"].name]
    assert first.title == "step 0"
    bars = {bar.part: bar for bar in first.bars}
    assert bars["background"].width == pytest.approx(1000 * 9 / 54, abs=0.01)
    assert "background 9 s, 5 MB/s" in first.words
    assert last.bars[0].x == pytest.approx(1000 * 40 / 54, abs=0.01)


def test_a_proof_of_the_next_day_does_not_compress_the_saves(record_002: ComparisonRecord) -> None:
    late = record_002.baseline.replace(lives=(life(0, 100.0, 90_000.0),))
    candidate = record_002.candidate.replace(lives=())
    timeline = draw_lives(record_002.replace(baseline=late, candidate=candidate))
    assert timeline is not None
    assert (timeline.end_s, timeline.broken) == (110.0, True)
    (line,) = timeline.lines[late.name]
    widths = {bar.part: (bar.x, bar.width) for bar in line.bars}
    assert widths["background"][1] > 800
    assert widths["manifest"][0] > sum(widths["background"])


def test_without_saves_there_is_no_timeline(record_002: ComparisonRecord) -> None:
    bare = {side: getattr(record_002, side).replace(lives=()) for side in ("baseline", "candidate")}
    assert draw_lives(record_002) is not None
    assert draw_lives(record_002.replace(**bare)) is None


def test_arrays_of_different_shapes_are_on_both_sides(found: CheckpointDifference) -> None:
    grown = pair("parameter", "params.x").replace(other_shape=(9,), values=None)
    (line,) = list_arrays(found.replace(arrays=(grown,)))
    assert (line.verdict, line.word, line.shapes) == ("changed", "not compared: the shapes differ", "[8] → [9]")
