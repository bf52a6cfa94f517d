"""Finds the settings in which two runs differ, without a run's own names and folders; marks those without effect."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from configs.findings import FindingKind
from configs.frozen import Frozen
from configs.verdict_rules import Inert, load_inert
from tasks.records.run import RunRecord

FLAG_VARIABLES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
# MaxText's keys that choose the implementation: they are expected to differ between Linen and NNX
IMPLEMENTATION_KEYS = frozenset({"pure_nnx", "enable_nnx", "pure_nnx_decoder"})
# (kind of finding, pattern of config keys): keys of MaxText, maxview's trainer and Megatron; the first match is used
KEYS: tuple[tuple[FindingKind, re.Pattern[str]], ...] = (
    ("seed", re.compile(r"seed")),
    ("data", re.compile(r"^(data|dataset|eval_dataset|train_data|hf|grain|tfds|tokenizer|c4_mlperf)(_|$)|_split$|"
                        r"^(split|packing|vocab_file|merge_file|mock_data|num_epoch)$")),
    ("xla-flags", re.compile(r"xla_flags|libtpu_init_args|^xla_", re.IGNORECASE)),
)  # fmt: skip
LEFT_OUT = "…"  # replaces a run's own names and folders


class SettingDifference(Frozen):
    """A setting in which two runs differ: both values, and the kind of its finding."""

    name: str  # config key or environment variable
    values: tuple[str, str]  # the first and the second run's; XLA flags without the equal ones
    kind: FindingKind  # "inert" if the difference has no effect
    why: str = ""  # the reason why it has no effect; else empty


def kind_of_key(key: str) -> FindingKind:
    """Return the kind of a config key, from its name."""
    return next((kind for kind, pattern in KEYS if pattern.search(key)), "config")


def config_of(run: RunRecord) -> dict[str, str]:
    """Return the config of a run: its plan's, plus the keys that only its log prints."""
    planned = run.plan.config if run.plan else {}
    return dict(run.reading.config) | {key: str(value) for key, value in planned.items()}


def own_config(run: RunRecord) -> dict[str, str]:
    """Return `config_of(run)` without the run's own names and folders, which differ in every run."""
    return _without_own(config_of(run), run)


def config_differences(left: RunRecord, right: RunRecord, *, planned: bool = False) -> Iterator[SettingDifference]:
    """Yield the differences in config keys that both runs have. planned: only in keys that one of the plans has."""
    sides = own_config(left), own_config(right)
    keys = sides[0].keys() & sides[1].keys()
    if planned:
        keys &= {key for run in (left, right) if run.plan for key in run.plan.config}
    for key in sorted(keys):
        yield from _compare(key, (sides[0][key], sides[1][key]), sides, inert_of(left))


def variable_differences(left: RunRecord, right: RunRecord) -> Iterator[SettingDifference]:
    """Yield the differences in the environment variables of the runs' plans; none if a run has no plan.

    The flags in FLAG_VARIABLES are compared one by one, and yielded under the first variable's name.
    """
    if left.plan is None or right.plan is None:
        return
    sides = _without_own(left.plan.environment, left), _without_own(right.plan.environment, right)
    flags = [" ".join(side.get(name, "") for name in FLAG_VARIABLES) for side in sides]
    inert = inert_of(left)
    yield from _compare(FLAG_VARIABLES[0], (flags[0], flags[1]), sides, inert)
    for name in sorted((sides[0].keys() | sides[1].keys()) - set(FLAG_VARIABLES)):
        for difference in _compare(name, (str(sides[0].get(name)), str(sides[1].get(name))), sides, inert):
            yield difference if difference.why else difference.replace(kind="environment-variable")


def inert_of(run: RunRecord) -> Inert:
    """Return the settings that may differ: as stored with the run's plan, else from configs/inert.yml."""
    rules = run.plan.rules if run.plan else None
    return rules.inert if rules else load_inert()


def _compare(
    name: str, values: tuple[str, str], sides: tuple[Mapping[str, str], ...], inert: Inert
) -> Iterator[SettingDifference]:
    if values[0] == values[1]:
        return
    kind = kind_of_key(name)
    if kind != "xla-flags":
        why = inert.why(name, *sides)
        yield SettingDifference(name=name, values=values, kind="inert" if why else kind, why=why or "")
        return
    flags = [set(value.split()) for value in values]
    reasons = {flag: inert.why(flag.strip("-'\"").partition("=")[0]) for flag in flags[0] ^ flags[1]}
    for only in (False, True):  # False: flags with effect; True: flags without
        alone = [
            " ".join(sorted(f for f in side if f in reasons and (reasons[f] is not None) == only)) for side in flags
        ]
        if any(alone):
            why = next((reason for reason in reasons.values() if reason), "") if only else ""
            shown = (alone[0] or "none", alone[1] or "none")
            yield SettingDifference(name=name, values=shown, kind="inert" if only else kind, why=why)


def _without_own(values: Mapping[str, str], run: RunRecord) -> dict[str, str]:
    """Return the settings without the run's own names, folders, ports and hosts.

    LEFT_OUT replaces these in the values of other settings, except inputs, data and seeds.
    """
    inert = inert_of(run)
    own = {text for name, text in values.items() if inert.is_own(name)} | _own_words(run)
    words = sorted((text for text in own if _is_telling(text)), key=len, reverse=True)
    pattern = re.compile("|".join(rf"(?<![A-Za-z0-9]){re.escape(text)}(?![A-Za-z0-9])" for text in words) or r"(?!)")
    left = {}
    for name, text in values.items():
        if inert.is_own(name):
            continue
        # a value that equals one of the run's own names (quantization: int8) is kept
        keep = inert.is_input(name) or kind_of_key(name) in ("data", "seed") or (text in own and "/" not in text)
        left[name] = text if keep else pattern.sub(LEFT_OUT, text)
    return left


def _own_words(run: RunRecord) -> set[str]:
    inert, config = inert_of(run), config_of(run)
    words = {text.rstrip("/") for key, text in config.items() if inert.is_own(key)}
    name, base = config.get("run_name", ""), config.get("base_output_directory", "").rstrip("/")
    words |= {f"{base}/{name}"} if name and base else set()
    if run.plan is not None:
        words |= {run.plan.run_name, run.plan.directory, str(Path(run.plan.directory).parent)}
        words |= {run.plan.checkout} if run.plan.checkout else set()
    return words


def _is_telling(text: str) -> bool:
    """Return whether a text is specific enough to be replaced in other values.

    Numbers, booleans, null, punctuation and single characters are not.
    """
    return len(text) > 1 and not re.fullmatch(r"[\d.]+|(?i:true|false|none|null)|\W+", text)
