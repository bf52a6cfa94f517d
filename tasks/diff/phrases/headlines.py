"""The fields of a verdict → its headline."""

from collections.abc import Sequence

from tasks.diff.phrases.amounts import ONE_RUN
from tasks.records.compared_case import Conclusion, DecidingRow, Verdict

NOT_LAUNCHED = "nothing was launched: "
NOT_COMPARABLE = "not comparable: "
WORDS: dict[Verdict, str] = {
    "regressed": "{} regressed",
    "changed": "{} changed",
    "unknown": "not enough evidence for {}",
    "improved": "{} improved, nothing regressed",
}
NOTES = {
    "one commit": " ({} and {} are one commit)",
    "no file": " (no file differs between the two)",
    "no file that is read": " (no file that the trainer reads differs between the two)",
}


def tell_headline(found: Conclusion) -> str:
    """Return the headline: the arms, the result, and what was not tried."""
    left_out = f"; {found.not_tried}" if found.not_tried else ""
    return f"{'' if found.launched else NOT_LAUNCHED}{_tell_arms(found)}{_tell_own(found)}{left_out}"


def tell_result(found: Conclusion, *, whole: bool = True) -> str:
    """Return the headline without the arms. whole: with what was not tried."""
    left_out = f"; {found.not_tried}" if found.not_tried and whole else ""
    before = "" if found.launched else NOT_LAUNCHED + _tell_arms(found)
    return f"{before}{_tell_own(found)}{left_out}"


def tell_lead(found: Conclusion) -> str:
    """Return the beginning of a result that its reason follows: who died, or that the two cannot be compared."""
    if found.died:
        return NOT_LAUNCHED if not found.launched else f"{who}: " if (who := tell_dead(found)) else ""
    return NOT_COMPARABLE if found.blocked and found.launched else ""


def tell_dead(found: Conclusion) -> str:
    """Return which arm died, and when, without the cause; empty if no death has a known cause."""
    if not found.launched:
        return NOT_LAUNCHED.removesuffix(": ")
    for number, death in enumerate(found.died):
        if death.claim:
            return "; ".join([*(one.message for one in found.died[:number]), death.claim])
    return ""


def _tell_arms(found: Conclusion) -> str:
    return "" if found.died or found.blocked else f"{found.arms[1]} against {found.arms[0]}: "


def _tell_own(found: Conclusion) -> str:
    return f"{_tell_verdict(found)}{NOTES[found.note].format(*found.versions) if found.note else ''}"


def _tell_verdict(found: Conclusion) -> str:
    if found.died:
        return "; ".join(one.message for one in found.died)
    if found.blocked:
        return f"{NOT_COMPARABLE}{found.blocked}"
    more = f", and {len(found.qualified) - 1} more" if len(found.qualified) > 1 else ""
    qualified = f" (but {found.qualified[0]}{more})" if found.qualified else ""
    if found.uncovered:
        return f"{found.uncovered}{qualified}"
    if found.rows:
        by = f" (by {ONE_RUN})" if found.by_one_run else ""
        why = f": {found.host}" if found.host else ""
        return f"{_tell_rows(found)}{by}{why}{qualified}"
    proof = list_words(found.held) if found.held else ""
    if found.function:
        return f"same up to rounding: {found.function}{qualified}"
    if found.failed is not None:
        but = f'but the check "{found.failed.name}" failed: {found.failed.evidence}'
        return f"every judged row is the same{f' ({proof})' if proof else ''}, {but}{qualified}"
    return f"no difference{f': {proof}' if proof else ''}{qualified}"


def _tell_rows(found: Conclusion) -> str:
    """Return the rows with their verdicts in words, if one regressed results before costs.

    Example: `Loss, step by step changed; Step time, steady +5.1 % regressed`.
    """
    if found.verdict != "regressed":
        return WORDS[found.verdict].format(list_words([row.shown for row in found.rows]))
    parts = []
    for is_result in (True, False):
        for word in ("regressed", "changed"):
            shown = [row.shown for row in found.rows if _is(row, word, is_result=is_result)]
            parts += [f"{list_words(shown)} {word}"] if shown else []
    return "; ".join(parts)


def _is(row: DecidingRow, word: str, *, is_result: bool) -> bool:
    return row.verdict == word and row.is_result == is_result


def list_words(words: Sequence[str]) -> str:
    """Return `a`, `a and b` or `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
