"""Finds the lines of Megatron's logs that are no rows: a table of patterns."""

from tasks.scrape.dialects.dialect import patterns
from tasks.scrape.dialects.megatron.validation import VALIDATION
from tasks.scrape.dialects.schedule import LOOSE

_NUMBER = rb"(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
_DATE = rb"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)"
_MEMORY_ROW = rb"((?: \| [a-z][a-z -]{0,60}: {0,20}\d{1,15}(?:\.\d{1,20})?)+)(?: \|)?(?=\s|\Z)"
_PATTERNS = {
    # every repetition is bounded: without bounds, a long run of spaces, dots or dashes costs its length squared
    # the dashes before are asked for behind the words, which are found fast
    "table": rb" arguments (?<=-{5} arguments )-{5,80}",
    "table_end": rb" end of arguments (?<=-{5} end of arguments )-{5,80}",
    "world": rb"using world size: (\d+)",
    "parallel": rb"-parallel[ -]size: (\d{1,9})(?!\d)",  # the axis stands before it
    "vocabulary": rb"padded vocab \(size: (\d+)\) with (\d+) dummy tokens \(new size: (\d+)\)",
    # before 2021 there was no pipeline: `model parallel rank 0: 178100224`
    "rank_parameters": rb"number of parameters on (?:\(tensor, pipeline\) )?model parallel rank "
    rb"(?:\((\d{1,9}), (\d{1,9})\)|(\d{1,9}))(?:: |=) ?(\d{1,18})(?=\s)",
    "total": rb"Total number of parameters in billions: (\d+\.\d+)(?=\s)",
    "theory": rb"Theoretical memory footprints: ([^\n]{1,300})",
    "memory": rb"\[Rank (0|[1-9]\d{0,8})\] \(after (0|[1-9]\d{0,14}) iterations\) memory \((MB|GB)\)" + _MEMORY_ROW,
    # before 2021 only rank 0 prints it, and no bracket before it, in which another rank's may stand
    "memory_of_first": rb"(?<![(\w])after (0|[1-9]\d{0,14}) iterations memory \((MB|GB)\)" + _MEMORY_ROW,
    # the name and its dots stand before it
    "timer": rb"\.\.: \(%s, %s\)" % (_NUMBER, _NUMBER),
    # before 2023, and DeepSpeed: one rank's times in one line
    "times": rb"time \(ms\)((?: \| [a-z1][\w/ -]{0,80}: \d{1,15}(?:\.\d{1,9})?)+)(?: \|)?(?=\s)",
    # Megatron-Bridge prints this before each row
    "step_time": rb"Step Time ?: (\d{1,9}\.\d{2})s GPU utilization: (\d{1,9}\.\d)MODEL_TFLOP/s/GPU",
    "saving": rb"saving checkpoint at iteration {1,40}(\d{1,15}) to (\S{1,2000})(?=\s)",
    "scheduled": rb"scheduled an async checkpoint save at iteration {1,40}(\d{1,15}) to (\S{1,2000})(?=\s)",
    "saved": rb"successfully saved checkpoint (?:from|at) iteration {1,40}(\d{1,15}) to (\S{1,2000})(?=\s)",
    "loaded": rb"successfully loaded checkpoint from (\S{1,2000})(?: \[[^\]\n]{0,80}\])? {1,40}at iteration "
    rb"(\d{1,15})(?!\d)",
    "not_found": rb"could not find the metadata file (\S{1,2000})(?=\s)",
    "finished": rb"(?=exiting program (?:at|after) [^\n]{1,80})|(?=\[after training is done\] datetime: )",
    "validation": VALIDATION,
    "operation": LOOSE,
    "date": rb"\[([a-z][^\]\n]{3,80})\] datetime: %s" % _DATE,
}
ANCHORS = patterns(
    _PATTERNS,
    {
        "validation": (b"validation loss at ", b" results at "),
        "parallel": (b"-parallel",),
        "finished": (b"exiting program ", b"[after training"),
        "memory_of_first": (b" iterations memory ",),
    },
)
