"""Takes a Markdown document with log excerpts apart: which of its bytes are log, and which excerpts are one run."""

import re

from tasks.scrape.dialects.maxtext.rows import HEAD as LOOSE

_FENCE = re.compile(rb"^[ \t]*(?:```|~~~)[^\n]*\n?", re.MULTILINE)
FENCED_WITHIN = 1 << 20  # bytes in which a guide shows its first excerpt
_LINE = re.compile(rb"[^\n]*completed step: (\d+)[^\n]*")


def is_guide(data: bytes) -> bool:
    """Whether a text is Markdown whose step lines all stand in fenced blocks."""
    if not any(fence in data[:FENCED_WITHIN] for fence in (b"```", b"~~~")):
        return False
    blocks = fenced_blocks(data)
    inside = sum(len(LOOSE.findall(data, begin, end)) for begin, end in blocks)
    return inside > 0 and inside == len(LOOSE.findall(data))


def fenced_blocks(data: bytes) -> list[tuple[int, int]]:
    """The byte ranges of the fenced code blocks, without their fences."""
    fences = list(_FENCE.finditer(data))
    return [(a.end(), b.start()) for a, b in zip(fences[::2], fences[1::2], strict=False)]


def split_excerpts(data: bytes) -> list[tuple[bytes, tuple[int, int]]]:
    """(text, byte range) of every run in a guide; the text is as long as `data`, with all else blanked out.

    Excerpts are parts of one log in their order. One whose step lines were all quoted before adds nothing; one whose
    steps do not follow belongs to another run.
    """
    runs: list[list[tuple[int, int]]] = [[]]
    last = -1
    quoted: set[bytes] = set()
    for begin, end in fenced_blocks(data):
        lines = [(match[0].strip(), int(match[1])) for match in _LINE.finditer(data, begin, end)]
        if lines and all(text in quoted for text, _ in lines):
            continue
        if lines:
            if lines[0][1] <= last:
                runs.append([])
            last = lines[-1][1]
            quoted.update(text for text, _ in lines)
        runs[-1].append((begin, end))
    return [(_keep(data, blocks), (blocks[0][0], blocks[-1][1])) for blocks in runs]


def _keep(data: bytes, blocks: list[tuple[int, int]]) -> bytes:
    """The text with everything outside the blocks turned into spaces; line breaks stay, so lines keep their numbers."""
    blank = re.compile(rb"[^\n]")
    parts, position = [], 0
    for begin, end in blocks:
        parts += [blank.sub(b" ", data[position:begin]), data[begin:end]]
        position = end
    return b"".join([*parts, blank.sub(b" ", data[position:])])
