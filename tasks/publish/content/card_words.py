"""The words of the verification card: signs, a summary, and the source files that changed since a verification."""

from collections.abc import Mapping, Sequence

from tasks.records.card import Card, CardItem, CardRow, CardState, key_of

SIGNS: dict[CardState, tuple[str, str, str]] = {  # sign, word on the page, style in a terminal
    "verified": ("✓", "same", "green"),
    "failed": ("✗", "regressed", "red"),
    "not verified": ("–", "unknown", "yellow"),
}
MEANINGS = {
    "same program": "the lowered training step of both arms is the same computation",
    "same bits": "every loss, every norm and all arrays after the last step are equal bit for bit",
    "same checkpoint": "one arm restored the other's checkpoint and trained on with equal losses",
    "equal losses": "every step's loss is equal, by the tolerances of the comparison",
    "checkpoints proved": "every checkpoint of both arms was read back and is complete",
    "outside references": "logits, losses, gradients and optimizer steps equal those of other libraries, within limits",
    "preflight": "both arms compile for a TPU slice and fit into its memory",
}
LEGEND = "✓ verified · (✓) verified, but the source has changed since · ✗ failed · – not verified"
SHOWN = 3  # changed files that a line names

# `key_of` an item of the card -> source files that have changed since it was verified
type Changed = Mapping[tuple[str, ...], Sequence[str]]


def sign_of(row: CardRow, item: CardItem, changed: Changed) -> str:
    """Return ✓, ✗ or –, in brackets if the item's sources have changed."""
    sign = SIGNS[item.state][0]
    return f"({sign})" if changed.get(key_of(row, item)) else sign


def names_of(card: Card) -> list[str]:
    """Return the names of the card's comparisons, in its order."""
    return list(dict.fromkeys(row.comparison for row in card.rows))


def summarise(card: Card) -> str:
    """Return a line per comparison: its trainers, its compared cases, and how many of them pass and fail each proof."""
    return "\n".join(_sentence(name, [row for row in card.rows if row.comparison == name]) for name in names_of(card))


def _sentence(name: str, rows: Sequence[CardRow]) -> str:
    cases = len({row.case for row in rows})
    parts = []
    for head in rows[0].items:
        states = [(row.case, item.state) for row in rows for item in row.items if item.name == head.name]
        failed = {case for case, state in states if state == "failed"}
        verified = {case for case, state in states if state == "verified"} - failed
        parts.append(f"{head.name} in {len(verified) or 'none'}" + f", failed in {len(failed)}" * bool(failed))
    arms = dict.fromkeys(_arm(label) for row in rows for label in row.arms if label)
    trainers = dict.fromkeys(trainer for row in rows for trainer in row.trainers)
    who = f" ({' and '.join(arms)} of {', '.join(trainers)})" if trainers else ""
    compared = len({row.case for row in rows if row.target})
    never = f", {cases - compared} never compared" * (compared < cases)
    return f"{name}{who}, {compared} of {cases} cases compared{never}: {'; '.join(parts)}."


def _arm(label: str) -> str:
    return label.split(" · ", 1)[0]


def describe_changes(card: Card, changed: Changed) -> list[str]:
    """Return a line for each set of changed files, with the number of rows that depend on it."""
    files: dict[tuple[str, ...], set[str]] = {}
    for row in card.rows:
        for item in row.items:
            if found := changed.get(key_of(row, item)):
                files.setdefault(tuple(found), set()).add(f"{row.comparison} {row.case} {row.target}")
    lines = []
    for names, rows in files.items():
        more = f" and {len(names) - SHOWN} more" * (len(names) > SHOWN)
        where = f"{len(rows)} row{'s' * (len(rows) > 1)}"
        lines.append(f"(✓) in {where}: changed since: {', '.join(names[:SHOWN])}{more}")
    return lines
