"""Reads and writes baseline files, `configs/baselines/<comparison>/<target>/<case>.json`.

A baseline file holds blessed runs: a candidate's runs that `maxview bless` kept for later comparisons.
"""

import json
from pathlib import Path

from pydantic import ValidationError

from configs.names import BLESSED
from configs.read import CONFIG_ROOT
from tasks.records.run import Baseline
from tasks.store.atomic import StoreError, write_atomically
from tasks.store.documents import describe_errors, dump_json, load_json, read_document
from tasks.store.json_records import run_record_from_json, run_record_to_json
from tasks.store.names import check_name

FOLDER = CONFIG_ROOT / "baselines"
VERSION = 1  # of the file's format


def is_baseline_place(text: str | None) -> bool:
    """Return whether a value of `--baseline` names blessed runs (`blessed`, a .json file, a folder …/), not a ref."""
    return text is not None and (text == BLESSED or text.endswith((".json", "/")))


def name_place(place: str) -> str:
    """Return the value of `--baseline` for a place; a folder gets a trailing slash."""
    return place if is_baseline_place(place) else f"{place}/"


def find_baseline(place: str, comparison: str, target: str, case: str) -> Path:
    """Return the path of a case's baseline file.

    place: "blessed" for configs/baselines, a folder with the same subfolders, or the path of one .json file.
    """
    if place.endswith(".json"):
        return Path(place)
    folder = FOLDER if place == BLESSED else Path(place)
    parts = check_name(comparison, "comparison"), check_name(target, "target"), f"{check_name(case, 'case')}.json"
    return folder.joinpath(*parts)


def write_baseline(path: Path, baseline: Baseline) -> Path:
    """Write a baseline file atomically. Raises StoreError."""
    facts = baseline.model_dump(exclude={"runs"}) | {"version": VERSION}
    runs = [json.loads(run_record_to_json(run)) for run in baseline.runs]
    return write_atomically(path, dump_json(facts | {"runs": runs}))


def read_baseline(path: Path) -> Baseline | None:
    """Return the baseline in a file, or None if there is no such file.

    Raises StoreError if the file is unreadable, damaged or of another version.
    """
    return read_document(path, _parse)


def _parse(text: str, name: str) -> Baseline:
    document = load_json(text, name)
    if document.pop("version", None) != VERSION:
        raise StoreError(f"{name}: is not a baseline file of this version; write it again: maxview bless COMPARISON")
    runs = [run_record_from_json(json.dumps(run), f"{name}, run {n}") for n, run in enumerate(document.pop("runs", []))]
    try:
        return Baseline.model_validate(document | {"runs": runs})
    except ValidationError as error:
        raise StoreError(
            f"{name}: is damaged: {describe_errors(error)}; write it again: maxview bless COMPARISON"
        ) from error
