"""Which lines of a change ran, and what else writes the state."""

from pathlib import Path
from typing import Any

import pytest

from tasks.diff.examine.cover_change import cover_lines, cover_loop, doubt_others, doubt_programs, join_ran
from tasks.records.change import ChangeCoverage, RanLines
from tasks.records.compared_case import Floor
from tasks.records.function import FunctionComparison
from tasks.records.observation import LoopRecord, Observation, ObservedArray
from tasks.resolve.changed_code import find_changed_code

BEFORE = """RATE = 0.1

def step(x):
    return x * RATE

def evaluate(x):
    return x + 1

NAMES = {
    "relu": lambda x: max(x, 0),
    "half": lambda x: x / 2,
}
"""
STARTED = frozenset({("<module>", 1), ("step", 3)})
AT_IMPORT = {1, 3, 6, 9, 10, 11}


def cover(tmp_path: Path, after: str, lines: set[int], **more: object) -> ChangeCoverage:
    """Return the coverage of an edit of BEFORE. lines: those that the candidate ran beside its import."""
    for side, text in (("a", BEFORE), ("b", after)):
        (tmp_path / side).mkdir()
        (tmp_path / side / "model.py").write_text(text)
    changed = find_changed_code(tmp_path / "a", tmp_path / "b", ("model.py",), lambda path: True)
    fields = {"functions": {"model.py": STARTED}} | more
    ran = RanLines(lines={"model.py": frozenset(AT_IMPORT | lines)}, **fields)  # type: ignore[arg-type]
    return cover_lines(changed, (ran, ran), (tmp_path / "a", tmp_path / "b"))


def test_changed_lines_that_ran_are_counted(tmp_path: Path) -> None:
    found = cover(tmp_path, BEFORE.replace("x * RATE", "RATE * x"), {4})
    assert (found.lines, found.ran, found.gaps, found.doubts) == (1, 1, (), ())


def test_a_change_that_did_not_run_is_a_gap(tmp_path: Path) -> None:
    found = cover(tmp_path, BEFORE.replace("x + 1", "x + 2"), {4})
    assert (found.lines, found.ran) == (1, 0)
    assert [(one.file, one.first, one.function) for one in found.unseen] == [("model.py", 7, "evaluate")]
    assert len(found.gaps) == 1
    assert "model.py:7" in found.gaps[0]


def test_a_part_that_did_not_run_makes_the_word_likely(tmp_path: Path) -> None:
    found = cover(tmp_path, BEFORE.replace("x + 1", "x + 2").replace("x * RATE", "RATE * x"), {4})
    assert (found.lines, found.ran, found.gaps) == (2, 1, ())
    assert "model.py:7" in found.doubts[0]


@pytest.mark.parametrize(("readers", "ran"), [({4}, 1), (set(), 0)])
def test_a_constant_counts_where_it_is_read(tmp_path: Path, readers: set[int], ran: int) -> None:
    """Its own line runs whenever its module is imported."""
    assert cover(tmp_path, BEFORE.replace("RATE = 0.1", "RATE = 0.2"), readers).ran == ran


@pytest.mark.parametrize(("started", "ran"), [(frozenset({("<lambda>", 11)}), 1), (frozenset({("<lambda>", 10)}), 0)])
def test_a_changed_lambda_counts_if_it_was_called(
    tmp_path: Path, started: frozenset[tuple[str, int]], ran: int
) -> None:
    after = BEFORE.replace("x / 2", "x / 3") + "\ndef use(name):\n    return NAMES[name]\n"
    functions = {"model.py": STARTED | started | {("use", 14)}}
    found = cover(tmp_path, after, {14, 15}, functions=functions)
    places = {one.first for one in found.unseen}
    assert (9 not in places) == bool(ran)


GUARDED = BEFORE.replace("    return x * RATE", "    if x > 50:\n        x = x / 2\n    return x * RATE")


def test_a_new_condition_that_never_let_its_lines_run_is_a_gap(tmp_path: Path) -> None:
    found = cover(tmp_path, GUARDED, {4, 6}, ways={"model.py": ((4, frozenset({False})),)})
    assert len(found.gaps) == 1
    assert found.lines == 2


def test_a_new_condition_that_went_both_ways_is_covered(tmp_path: Path) -> None:
    found = cover(tmp_path, GUARDED, {4, 5, 6}, ways={"model.py": ((4, frozenset({False, True})),)})
    assert (found.ran, found.gaps, found.doubts) == (2, (), ())


def test_a_condition_that_always_let_its_lines_run_is_a_doubt_with_its_line(tmp_path: Path) -> None:
    found = cover(tmp_path, GUARDED, {4, 5, 6}, ways={"model.py": ((4, frozenset({True})),)})
    assert (found.gaps, len(found.doubts)) == ((), 1)
    assert "model.py:4 `if x > 50` was never false" in found.doubts[0]


def test_a_condition_of_a_script_counts_on_either_side(tmp_path: Path) -> None:
    """At the top of a file each assignment defines a name."""
    text = "for n in range(9):\n    RATE\n    print(rate)\n"
    added, removed = "rate = 0.1 if n < 50 else 0.3", "n = n if n < 70 else 0"
    rates = {"a": f"print(n)\n    print(n)\n    {removed}", "b": f"{added}\n    print(n)\n    print(n)"}
    for side, rate in rates.items():
        (tmp_path / side).mkdir()
        (tmp_path / side / "model.py").write_text(text.replace("RATE", rate))
    changed = find_changed_code(tmp_path / "a", tmp_path / "b", ("model.py",), lambda path: True)
    lines = {"model.py": frozenset(range(1, 6))}
    always = RanLines(lines=lines, ways={"model.py": ((2, frozenset({True})), (4, frozenset({True})))})
    both = RanLines(lines=lines, ways={"model.py": ((2, frozenset({True, False})), (4, frozenset({True, False})))})
    roots = tmp_path / "a", tmp_path / "b"
    assert cover_lines(changed, (both, both), roots).doubts == ()
    assert "`rate = 0.1 if n < 50 else 0.3` was never false" in cover_lines(changed, (both, always), roots).doubts[0]
    assert (
        "of the baseline `n = n if n < 70 else 0` was never false"
        in cover_lines(changed, (always, both), roots).doubts[0]
    )


def test_a_line_of_the_hosts_loop_makes_the_word_likely(tmp_path: Path) -> None:
    """What it gives steps after the recorded ones was not seen; what a traced line computes is in the program."""
    after = BEFORE.replace("x * RATE", "RATE * x")
    found = cover(tmp_path, after, {4}, host={"model.py": frozenset({4})})
    assert (found.gaps, len(found.doubts)) == ((), 1)
    assert "model.py:4 runs in the host's loop" in found.doubts[0]


LOOP = """import settings

def train():
    begin = settings.BEGIN
    end = begin + settings.LENGTH
    other = settings.OTHER
    for step in range(9):
        if step > end:
            break
"""
SETTINGS = """BEGIN = 5
LENGTH = 7
OTHER = 3
"""


@pytest.mark.parametrize(
    ("old", "new", "read"),
    [("LENGTH = 7", "LENGTH = 8", "settings.py:2 (read at train.py:8)"), ("OTHER = 3", "OTHER = 4", "")],
)
def test_a_value_that_the_hosts_loop_reads_makes_the_word_likely(tmp_path: Path, old: str, new: str, read: str) -> None:
    """A later step may take the other way of a condition that reads it. Names are followed through assignments."""
    for side, text in (("a", SETTINGS), ("b", SETTINGS.replace(old, new))):
        (tmp_path / side).mkdir()
        (tmp_path / side / "settings.py").write_text(text)
        (tmp_path / side / "train.py").write_text(LOOP)
    changed = find_changed_code(tmp_path / "a", tmp_path / "b", ("settings.py",), lambda path: True)
    lines = {"settings.py": frozenset(range(1, 4)), "train.py": frozenset(range(1, 9))}
    ran = RanLines(lines=lines, host={"train.py": frozenset({7, 8})})
    found = cover_lines(changed, (ran, ran), (tmp_path / "a", tmp_path / "b"))
    assert [read in doubt for doubt in found.doubts] == ([True] if read else [])


SCRIPT = """parser = Parser()
parser.add_argument("--ends", default=5)
args = parser.parse_args()
print(args)
for step in range(9):
    print(step)
    if step > args.ends:
        break
"""


@pytest.mark.parametrize(
    ("old", "new", "doubt"),
    [
        ("default=5", "default=6", "train.py:2 (read at train.py:7)"),
        ("print(step)", 'print("step", int(step))', ""),
        ("print(step)", "print(update(step))", "train.py:6 runs in the host's loop"),
    ],
)
def test_a_setting_counts_through_the_object_that_a_call_changes_and_a_print_does_not(
    tmp_path: Path, old: str, new: str, doubt: str
) -> None:
    for side, text in (("a", SCRIPT), ("b", SCRIPT.replace(old, new))):
        (tmp_path / side).mkdir()
        (tmp_path / side / "train.py").write_text(text)
    changed = find_changed_code(tmp_path / "a", tmp_path / "b", ("train.py",), lambda path: True)
    ran = RanLines(lines={"train.py": frozenset(range(1, 8))}, host={"train.py": frozenset({5, 6, 7})})
    found = cover_lines(changed, (ran, ran), (tmp_path / "a", tmp_path / "b"))
    assert [doubt in one for one in found.doubts] == ([True] if doubt else [])


CLASS = """SETTINGS = {}
def configure():
    SETTINGS["limit"] = 50
    limit = 3
class Trainer:
    def __init__(self):
        self.ends = 9
        other = 4
    def fit(self, other, limit):
        for step in range(9):
            if step > self.ends:
                break
            if step > SETTINGS["limit"]:
                break
            if step > other + limit:
                break
"""


@pytest.mark.parametrize(
    ("old", "new", "doubt"),
    [
        ("self.ends = 9", "self.ends = 8", "train.py:7 (read at train.py:11)"),
        ('["limit"] = 50', '["limit"] = 5', "train.py:3 (read at train.py:13)"),
        ("other = 4", "other = 5", ""),  # names of other functions
        ("limit = 3", "limit = 2", ""),
    ],
)
def test_attributes_and_names_of_the_module_count_in_other_functions(
    tmp_path: Path, old: str, new: str, doubt: str
) -> None:
    for side, text in (("a", CLASS), ("b", CLASS.replace(old, new))):
        (tmp_path / side).mkdir()
        (tmp_path / side / "train.py").write_text(text)
    changed = find_changed_code(tmp_path / "a", tmp_path / "b", ("train.py",), lambda path: True)
    ran = RanLines(lines={"train.py": frozenset(range(1, 17))}, host={"train.py": frozenset({10, 11, 13, 15})})
    found = cover_lines(changed, (ran, ran), (tmp_path / "a", tmp_path / "b"))
    assert [doubt in one for one in found.doubts] == ([True] if doubt else [])


def test_a_changed_file_that_is_read_makes_the_word_likely(tmp_path: Path) -> None:
    for side, text in (("a", "[1, 2, 3]"), ("b", "[1, 2, 4]")):
        (tmp_path / side).mkdir()
        (tmp_path / side / "rates.json").write_text(text)
    changed = find_changed_code(tmp_path / "a", tmp_path / "b", ("rates.json",), lambda path: True)
    ran = RanLines(opened=frozenset({"rates.json"}))
    roots = tmp_path / "a", tmp_path / "b"
    assert ["rates.json was read" in doubt for doubt in cover_lines(changed, (ran, ran), roots).doubts] == [True]
    assert cover_lines(changed, (ran, ran), roots, settings_differ=True).doubts == ()


def test_a_condition_that_another_statement_replaces_counts(tmp_path: Path) -> None:
    before, after = GUARDED, GUARDED.replace("    if x > 50:\n        x = x / 2", "    x = x + 0")
    for side, text in (("a", before), ("b", after)):
        (tmp_path / side).mkdir()
        (tmp_path / side / "model.py").write_text(text)
    changed = find_changed_code(tmp_path / "a", tmp_path / "b", ("model.py",), lambda path: True)
    lines = {"model.py": frozenset(AT_IMPORT | {4, 5, 6})}
    ways = {"model.py": ((4, frozenset({False})),)}
    left = RanLines(lines=lines, functions={"model.py": STARTED}, ways=ways)
    right = RanLines(lines=lines, functions={"model.py": STARTED})
    found = cover_lines(changed, (left, right), (tmp_path / "a", tmp_path / "b"))
    assert ["of the baseline `if x > 50` was never true" in doubt for doubt in found.doubts] == [True]


def test_lines_that_are_not_known_make_the_word_likely(tmp_path: Path) -> None:
    found = cover(tmp_path, BEFORE.replace("x + 1", "x + 2"), set(), problem="Python 3.11 has no sys.monitoring")
    assert found.unknown == "Python 3.11 has no sys.monitoring"
    assert (len(found.doubts), found.gaps) == (1, ())


def test_a_line_ran_if_one_of_several_runs_executed_it() -> None:
    runs = [
        RanLines(
            lines={"a.py": frozenset({line})}, functions={"a.py": frozenset({("f", line)})},
            ways={"a.py": ((3, frozenset({line == 1})),)},
        )
        for line in (1, 2)
    ]  # fmt: skip
    joined = join_ran([*runs, RanLines(problem="none"), None])
    assert joined.lines["a.py"] == {1, 2}
    assert joined.ways["a.py"] == ((3, {True, False}),)
    assert joined.problem == ""


def loops_of(*records: LoopRecord) -> tuple[Observation, Observation]:
    left, right = (Observation(arm=arm, step="train_step", loop=loop) for arm, loop in zip("ab", records, strict=True))
    return left, right


def loops(*records: LoopRecord) -> list[str]:
    return cover_loop(loops_of(*records))


PLAIN = LoopRecord(calls=6)


@pytest.mark.parametrize(
    ("record", "word"),
    [
        (LoopRecord(calls=6, writers={"update": 24}, others={"update": 5}), "`update`"),
        (LoopRecord(calls=6, outside=2), "2 arrays"),
        (LoopRecord(calls=6, beside=24), "24 arrays"),
        (LoopRecord(calls=6, callbacks={"rate": 1}), "`rate`"),
        (LoopRecord(calls=6, programs=2, changed_at=(5,)), "call 5"),
    ],
)
def test_what_else_writes_the_state_is_named_in_either_arm(record: LoopRecord, word: str) -> None:
    for found in (loops(PLAIN, record), loops(record, PLAIN)):
        assert len(found) == 1
        assert word in found[0]
    assert loops(PLAIN, PLAIN) == []


@pytest.mark.parametrize(
    ("right", "count"),
    [
        ({"digests": {"update": "d"}, "others": {"update": 5}}, 0),
        ({"digests": {"update": "e"}, "others": {"update": 5}}, 1),  # another program
        ({"digests": {"update": "d"}, "others": {"update": 2}}, 1),  # called less often
        ({"digests": {"update": ""}, "others": {"update": 5}}, 1),  # several programs
    ],
)
def test_another_function_of_one_program_in_both_arms_is_excused(right: dict[str, dict[str, str]], count: int) -> None:
    left = LoopRecord(calls=6, writers={"update": 24}, digests={"update": "d"}, others={"update": 5})
    assert len(loops(left, LoopRecord.model_validate({"calls": 6, "writers": {"update": 24}} | right))) == count


@pytest.mark.parametrize(
    ("right", "doubted"),
    [
        ({"others": {"augment": 5}, "digests": {"augment": "other"}}, "`augment` runs another program"),
        ({"others": {"flip": 5}, "digests": {"flip": "other"}}, "calls `flip`"),
        ({"others": {"flip": 5}, "digests": {"flip": "d"}}, ""),  # renamed
        ({"others": {"augment": 5}, "digests": {"augment": ""}}, ""),  # several programs, which are not compared
        ({"others": {"augment": 5}, "digests": {"augment": "other"}, "writers": {"augment": 2}}, ""),  # a gap
    ],
)
def test_other_functions_of_the_loop_that_differ_make_the_word_likely(right: dict[str, Any], doubted: str) -> None:
    """They may make the data of later steps."""
    left = LoopRecord(calls=6, others={"augment": 5}, digests={"augment": "d"})
    found = list(doubt_others(loops_of(left, LoopRecord.model_validate({"calls": 6} | right))))
    assert any(doubted in one for one in found) if doubted else found == []


def test_an_array_that_only_one_arm_carries_on_is_named() -> None:
    count = ObservedArray(name="count", role="counter", meaning="count", shape=(), dtype="int32")
    left, right = (
        Observation(arm=arm, step="s", arguments=(count,), feeds=feeds) for arm, feeds in (("a", (0,)), ("b", (None,)))
    )
    (found,) = cover_loop((left, right))
    assert "count" in found


@pytest.mark.parametrize(
    ("program", "answer", "doubted"),
    [
        (False, None, True),
        (False, "not evaluated", True),
        (False, "same", False),  # float64 told
        (False, "another", False),
        (True, None, False),
        (None, None, False),  # given logs hold no program
    ],
)
def test_programs_that_differ_are_doubted_until_their_function_is_known(
    program: bool | None, answer: Any, doubted: bool
) -> None:
    floors = [Floor(name="same program", holds=program, evidence=""), Floor(name="same bits", holds=True, evidence="")]
    function = None if answer is None else FunctionComparison(answer=answer, sentence="too large")
    found = doubt_programs(None, floors, function)
    assert (found is not None and any("the programs differ" in one for one in found.doubts)) == doubted
