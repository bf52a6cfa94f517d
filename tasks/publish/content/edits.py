"""Shows the changed lines of a working tree or a commit: its diff, and which of its lines ran."""

import re
from collections.abc import Iterator, Sequence

from configs.frozen import Frozen
from tasks.records.compared_case import ComparisonRecord
from tasks.records.plan import CodeVersion
from tasks.records.text import visible

FOLDED = 40  # lines of a diff; a longer one is folded on the page
SHORT = 14  # lines of a diff; a shorter one stands on the first screen of the page
SHOWN = 6  # changed lines in a terminal
HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


class EditLine(Frozen):
    """A line of a diff."""

    text: str
    kind: str  # "added", "removed", "context", "file" or "hunk"
    number: int | None = None  # of a changed line, or of the one that follows a removed one
    ran: bool | None = None  # whether it was executed; None: unknown, or no code


class Edit(Frozen):
    """The uncommitted changes of one side, or the changes from the baseline's commit to the candidate's."""

    side: str
    version: CodeVersion
    lines: tuple[EditLine, ...]
    command: str  # prints the whole diff

    @property
    def title(self) -> str:
        """The heading of its section."""
        return "Uncommitted changes" if self.version.changed else "Changed lines"

    @property
    def extent(self) -> str:
        """What it differs from, in words."""
        if self.version.changed:
            return f"of the {self.side}, not in {self.version.head[:9]}"
        return "between both commits, in files that the trainer reads"

    @property
    def files(self) -> tuple[str, ...]:
        """The changed files."""
        names = (line.text.removeprefix("+++ b/") for line in self.lines if line.text.startswith("+++ b/"))
        return self.version.changed or tuple(names)

    @property
    def is_long(self) -> bool:
        """Whether the page folds it."""
        return len(self.lines) > FOLDED

    @property
    def is_short(self) -> bool:
        """Whether it stands on the first screen of the page, without a section of its own."""
        return 0 < len(self.body) <= SHORT

    @property
    def body(self) -> tuple[EditLine, ...]:
        """The lines without git's own and blank ones at the end; a file is a line with its name."""
        own = [
            line.replace(text=_place(line, self.lines[n:])) if line.kind == "file" else line
            for n, line in enumerate(self.lines)
            if line.kind != "file" or line.text.startswith("+++ ")
        ]
        while own and not own[-1].text.strip():
            own.pop()
        return tuple(own)


def _place(file: EditLine, below: Sequence[EditLine]) -> str:
    """Return a file of a diff with the number of its first changed line."""
    changed = next((line.number for line in below if line.kind in ("added", "removed")), None)
    name = file.text.removeprefix("+++ ").removeprefix("b/")
    return f"{name}:{changed}" if changed is not None else name


def list_edits(record: ComparisonRecord) -> list[Edit]:
    """Return the uncommitted changes of each side that is a working tree; of two commits, those between them."""
    sides = (("baseline", record.baseline), ("candidate", record.candidate))
    found = ((side, record.code.get(arm.name)) for side, arm in sides)
    between = ("git", "diff", *(record.commit_in_clone(arm) or "" for _, arm in sides))
    return [
        Edit(
            side=side,
            version=version,
            lines=tuple(read_diff(record, side, version)),
            command="git diff" if version.changed else " ".join(word[:9] for word in between),
        )
        for side, version in found
        if version is not None and (version.changed or version.diff)
    ]


def read_diff(record: ComparisonRecord, side: str, version: CodeVersion) -> Iterator[EditLine]:
    """Yield the lines of a version's diff, with the mark of *Changed code* on those that the comparison lists."""
    listed = record.coverage.listed if record.coverage is not None else ()
    ran: dict[tuple[str, str, int], bool] = {(one.side, one.file, one.line): one.ran for one in listed}
    other = "baseline" if side == "candidate" else "candidate"
    file, old, new = "", 0, 0
    for line in version.diff.split("\n") if version.diff else ():
        if hunk := HUNK.match(line):
            old, new = int(hunk[1]), int(hunk[2])
            yield EditLine(text=visible(line), kind="hunk")
        elif old == new == 0 or line.startswith("diff --git "):
            file = line.removeprefix("+++ b/") if line.startswith("+++ b/") else file
            old = new = 0
            yield EditLine(text=visible(line), kind="file")
        elif line.startswith("+"):
            yield EditLine(text=visible(line), kind="added", number=new, ran=ran.get((side, file, new)))
            new += 1
        elif line.startswith("-"):
            yield EditLine(text=visible(line), kind="removed", number=new, ran=ran.get((other, file, old)))
            old += 1
        else:
            yield EditLine(text=visible(line), kind="context")
            old, new = old + 1, new + 1


def shorten_edit(edit: Edit, told: str = "") -> list[str]:
    """Return up to SHOWN changed lines, each without its indentation; the last one tells how many more there are.

    The first line names the files, unless `told` does. Of commits only a short diff: the first lines of a long one tell
    little.
    """
    if not edit.version.changed and not edit.is_short:
        return []
    changed = [f"{line.text[0]} {line.text[1:].strip()}" for line in edit.lines if line.kind in ("added", "removed")]
    changed = [line for line in changed if line[1:].strip()]
    places = [line.text for line in edit.body if line.kind == "file"]
    files = [] if all(file in told for file in edit.files) else [", ".join(places)]
    if len(changed) <= SHOWN:
        return [*files, *changed]
    return [*files, *changed[: SHOWN - 1], f"… {len(changed) - SHOWN + 1} more lines: {edit.command}"]
