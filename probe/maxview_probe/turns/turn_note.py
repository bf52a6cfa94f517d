"""A file beside the result of the turns: which program runs, so that a crash of their process names it."""

from pathlib import Path

LENGTH = 200  # bytes; a note replaces the one before


class TurnNote:
    """Writes the notes."""

    def __init__(self, result: Path):
        self.file = _place(result).open("wb", buffering=0)

    def write(self, name: str, rounds: int) -> None:
        """Note that an arm's program is being loaded or run, after some rounds."""
        self.file.seek(0)
        when = f"after {rounds} round{'s'[: rounds != 1]}" if rounds else "before the first round"
        self.file.write(f", in {name}'s program {when}".encode().ljust(LENGTH))


def read_note(result: Path) -> str:
    """Return the last note, such as ", in branch's program after 12 rounds"; empty if there is none."""
    path = _place(result)
    return path.read_text(encoding="utf-8", errors="replace").strip() if path.is_file() else ""


def remove_note(result: Path) -> None:
    """Remove the note of a process before."""
    _place(result).unlink(missing_ok=True)


def _place(result: Path) -> Path:
    return result.with_suffix(".note")
