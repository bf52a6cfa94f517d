"""base.yml and the schema have the same keys, each once; every file of the repository loads."""

import re
from pathlib import Path

import pytest

from configs.comparison import load_comparison, load_target
from configs.errors import ConfigError
from configs.load import COMMAND_LINE, load_train_config
from configs.names import SINGULAR, find, list_names
from configs.read import CONFIG_ROOT, first_comment, read_yaml
from configs.schema import PLACE_KEYS, TrainConfig
from configs.verdict_rules import load_tolerances
from tasks.resolve.arm_config import find_unfit_cases, resolve_config

BASE = CONFIG_ROOT / "base.yml"
KEY_LINE = re.compile(r"^(?P<key>[a-z0-9_]+):\s+(?P<value>\S+)\s+# (?P<meaning>\S.*)$")


def test_every_key_is_in_base_once_with_its_meaning_and_in_the_schema() -> None:
    lines = [line for line in BASE.read_text().splitlines() if line and not line.startswith("#")]
    matches = [KEY_LINE.match(line) for line in lines]
    assert [line for line, match in zip(lines, matches, strict=True) if match is None] == []
    keys = [match["key"] for match in matches if match]
    assert len(keys) == len(set(keys))
    assert sorted(keys) == sorted(TrainConfig.model_fields)


def test_defaults_live_only_in_base() -> None:
    assert [name for name, field in TrainConfig.model_fields.items() if not field.is_required()] == []


def test_base_alone_is_a_valid_config(tmp_path: Path) -> None:
    empty = tmp_path / "empty.yml"
    empty.write_text("")
    config = load_train_config(empty, [])
    assert config.model_dump() == dict(read_yaml(BASE))


def test_place_keys_are_keys() -> None:
    assert set(TrainConfig.model_fields) >= PLACE_KEYS


@pytest.mark.parametrize("kind", list(SINGULAR))
def test_every_folder_has_files_and_every_file_opens_with_its_purpose(kind: str) -> None:
    names = list_names(kind)  # type: ignore[arg-type]
    assert names
    for name in names:
        assert len(first_comment(find(kind, name)).split()) >= 3, name  # type: ignore[arg-type]


@pytest.mark.parametrize("name", list_names("comparisons"))
@pytest.mark.parametrize("target", list_names("targets"))
def test_every_case_resolves_on_every_target(name: str, target: str) -> None:
    comparison, place = load_comparison(name), load_target(target)
    wanted = {key for arm in comparison.arms for key in arm.set}
    for case in list_names("cases"):
        if find_unfit_cases([case], place):
            assert case == "12_pipeline"  # the only case with its own mesh
            with pytest.raises(ConfigError, match=f"multiple of 8 devices, .* {place.devices}"):
                resolve_config(comparison, place, case=case, arm=comparison.arms[0].name)
            continue
        sides = [resolve_config(comparison, place, case=case, arm=arm.name).config for arm in comparison.arms]
        assert {
            key for key in TrainConfig.model_fields if getattr(sides[0], key) != getattr(sides[1], key)
        } == wanted, case


@pytest.mark.parametrize("model", list_names("models"))
def test_every_model_resolves(model: str) -> None:
    comparison, place = load_comparison("linen-vs-nnx"), load_target("v6e-32")  # a laptop does not hold the large ones
    resolved = resolve_config(comparison, place, case="01_base", arm="linen", model=model)
    for key, value in dict(read_yaml(find("models", model))).items():
        assert getattr(resolved.config, key) == value
        assert resolved.values[key].layer == "model"


def test_origins_point_at_the_line_that_sets_the_value() -> None:
    comparison, place = load_comparison("linen-vs-nnx"), load_target("cpu")
    resolved = resolve_config(comparison, place, case="03_dropout", arm="nnx", overrides=["steps=7"])
    seen = set()
    for key, value in resolved.values.items():
        seen.add(value.layer)
        if value.layer == COMMAND_LINE:
            assert (key, value.origin) == ("steps", COMMAND_LINE)
            continue
        name, number = value.origin.rsplit(":", 1)
        line = (CONFIG_ROOT.parent / name).read_text().splitlines()[int(number) - 1]
        assert re.search(rf"\b{key}:", line), f"{value.origin} says {line!r}"
    assert seen == {"base", "target", "model", "case", "arm", COMMAND_LINE}


def test_every_tolerance_gives_its_reason() -> None:
    for name in list_names("tolerances"):
        assert all(len(tolerance.why.split()) >= 3 for tolerance in load_tolerances(name).values())
