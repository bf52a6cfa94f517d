"""Layers of a config: later wins, and all problems are reported at once, each with its line."""

from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.errors import ConfigError
from configs.load import (
    COMMAND_LINE,
    KEYS,
    ConfigValue,
    layer_from_map,
    layer_from_overrides,
    load_train_config,
    merge_layers,
    validate,
)
from configs.read import CONFIG_ROOT, read_yaml
from configs.schema import TrainConfig
from tests.wording.sentences import Wording

BASE = CONFIG_ROOT / "base.yml"
DEFAULTS = layer_from_map(read_yaml(BASE), BASE, "base")


def problems_of(path: Path, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_train_config(path, list(overrides))
    return caught.value.problems


def test_later_layers_win_and_keep_their_origin() -> None:
    layers = [DEFAULTS] + [
        {"steps": ConfigValue(value=n, origin=f"file-{n}:1", layer=layer)}
        for n, layer in enumerate(("target", "model", "case", "arm", "comparison"), start=1)
    ]
    config, values = merge_layers(layers)
    assert (config.steps, values["steps"].origin) == (5, "file-5:1")
    assert values["head_dim"] == DEFAULTS["head_dim"]


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["steps", "vocab_size", "max_target_length"]), st.integers(1, 1000)), max_size=6
    )
)
def test_the_last_layer_that_sets_a_key_decides(layers: list[dict[str, int]]) -> None:
    given = [
        {key: ConfigValue(value=value, origin=str(n), layer="case") for key, value in layer.items()}
        for n, layer in enumerate(layers)
    ]
    config, values = merge_layers([DEFAULTS, *given])
    for key in ("steps", "vocab_size", "max_target_length"):
        last = next((n for n in reversed(range(len(layers))) if key in layers[n]), None)
        expected = DEFAULTS[key].value if last is None else layers[last][key]
        assert getattr(config, key) == expected
        assert values[key].origin == (DEFAULTS[key].origin if last is None else str(last))


def test_a_key_of_model_file_and_command_line_is_refused(wording: Wording) -> None:
    model = {"head_dim": ConfigValue(value=16, origin="configs/models/tiny.yml:5", layer="model")}
    with pytest.raises(ConfigError, match=r"'head_dim' .*\(configs/models/tiny.yml:5\)") as error:
        merge_layers([DEFAULTS, model, layer_from_overrides(["head_dim=32"])])
    wording("errors", error.value)


def test_a_key_that_the_case_overrides_may_be_set() -> None:
    model = {"head_dim": ConfigValue(value=16, origin="models/m.yml:1", layer="model")}
    case = {"head_dim": ConfigValue(value=64, origin="cases/c.yml:1", layer="case")}
    config, _ = merge_layers([DEFAULTS, model, case, layer_from_overrides(["head_dim=32"])])
    assert config.head_dim == 32


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("per_device_batch_size", "4", 4),
        ("learning_rate", "1", 1.0),  # an int is a float
        ("learning_rate", "1e-5", 1e-5),
        ("learning_rate", "3.0E-5", 3e-5),
        ("scan_layers", "false", False),
        ("run_name", "20261118", "20261118"),  # a name, even if it looks like a number
        ("run_name", "true", "true"),
        ("base_output_directory", "gs://bucket/a=b", "gs://bucket/a=b"),
        ("base_output_directory", "", ""),
        ("learning_rate_schedule_steps", "-1", -1),
    ],
)
def test_overrides_are_read_by_the_type_of_their_key(key: str, text: str, expected: object, tmp_path: Path) -> None:
    path = tmp_path / "c.yml"
    path.write_text("")
    value = getattr(load_train_config(path, [f"{key}={text}"]), key)
    assert (value, type(value)) == (expected, type(expected))


def _values(key: str) -> st.SearchStrategy[Any]:
    kind = TrainConfig.model_fields[key].annotation
    if kind is bool:
        return st.booleans()
    if kind is int:
        return st.integers(-(2**40), 2**40)
    if kind is float:
        return st.floats(allow_nan=False, allow_infinity=False) | st.integers(-100, 100)
    return st.sampled_from(get_args(kind)) if get_args(kind) else st.text(st.characters(categories=["L", "N", "P"]))


@given(st.sampled_from(KEYS).flatmap(lambda key: st.tuples(st.just(key), _values(key))))
def test_typed_values_reach_the_schema(pair: tuple[str, Any]) -> None:
    key, value = pair
    text = str(value).lower() if isinstance(value, bool) else str(value)
    assert layer_from_overrides([f"{key}={text}"])[key].value == value


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("stepss: 3", "unknown key 'stepss' (did you mean 'steps'?)"),
        ("quantisation: int8", "unknown key 'quantisation'"),
        ("emb_dim: 64", "unknown key 'emb_dim' (did you mean 'base_emb_dim'?)"),
        ("model_name: seed-1b", "unknown key 'model_name' (--model names a file in configs/models)"),
        ("steps: 0", "steps: should be greater than 0, got 0"),
        ("steps: 20.0", "steps: should be a valid integer, got 20.0"),
        ("steps: true", "steps: should be a valid integer, got True"),
        ("steps: &x true", "steps: should be a valid integer, got True"),
        ("steps: '20'", "steps: should be a valid integer, got '20'"),
        ("steps:", "steps: should be a valid integer, got None"),
        ("steps: [1, 2]", "steps: should be a valid integer, got [1, 2]"),
        ("steps: 2026-11-18", "steps: should be a valid integer, got datetime.date(2026, 11, 18)"),
        ("scan_layers: 1", "scan_layers: should be a valid boolean, got 1"),
        ("scan_layers: yes", "scan_layers: should be a valid boolean, got 'yes'"),  # YAML 1.2: a word
        ("learning_rate: true", "learning_rate: should be a valid number, got True"),
        ("learning_rate: .nan", "learning_rate: should be a finite number, got nan"),
        ("learning_rate: .inf", "learning_rate: should be a finite number, got inf"),
        ("dropout_rate: 1.0", "dropout_rate: should be less than 1, got 1.0"),
        ("adam_b1: 1.0", "adam_b1: should be less than 1, got 1.0"),
        ("dtype: float16", "dtype: should be 'float32' or 'bfloat16', got 'float16'"),
        ("run_name: a/../b", "run_name: String should match pattern"),
        ("ici_fsdp_parallelism: 0", "ici_fsdp_parallelism: must be -1 or at least 1, got 0"),
        ("init_weights_seed: -1", "init_weights_seed: should be greater than or equal to 0, got -1"),
    ],
)
def test_a_bad_value_is_named_with_file_and_line(line: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "case.yml"
    path.write_text(f"# a case\nvocab_size: 128\n{line}\n")
    (problem,) = problems_of(path)
    assert problem.startswith(f"{path}:3: {expected}")


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "case.yml"
    path.write_text("steps: many\nstepz: 3\nhead_dim: 0\n")
    lines = problems_of(path, "dtype=int8")
    assert len(lines) == 4
    for start in (f"{path}:2: unknown", f"{path}:1: steps", f"{path}:3: head_dim", f"{COMMAND_LINE}: dtype"):
        assert any(line.startswith(start) for line in lines), (start, lines)


def test_relations_name_both_values_and_where_they_were_set(tmp_path: Path, wording: Wording) -> None:
    path = tmp_path / "case.yml"
    path.write_text("base_num_kv_heads: 5\nhead_dim: 7\nici_data_parallelism: -1\n")
    heads, even, axes = problems_of(path)
    wording("errors", heads.partition("base.yml:")[0])
    assert f"base_num_kv_heads = 5 from {path}:1" in heads
    assert "base_num_query_heads = 16 from configs/base.yml:" in heads
    assert f"head_dim = 7 from {path}:2" in even
    assert f"ici_data_parallelism = -1 from {path}:3" in axes
    assert "ici_fsdp_parallelism = -1 from configs/base.yml:" in axes


def test_a_key_that_no_layer_sets_is_missing() -> None:
    rest = {key: value for key, value in DEFAULTS.items() if key not in ("steps", "dtype")}
    with pytest.raises(ConfigError, match="not set anywhere: steps, dtype"):
        merge_layers([rest])


def test_validate_without_origins_still_names_the_key() -> None:
    values = {key: value.value for key, value in DEFAULTS.items()}
    with pytest.raises(ConfigError, match=r"^steps: should be greater than 0, got -1$"):
        validate(values | {"steps": -1}, {})


@pytest.mark.parametrize("word", ["steps", "=3", ""])
def test_a_word_that_is_not_an_override_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match=f"'{word}' is not key=value"):
        layer_from_overrides([word])


def test_a_key_given_twice_on_the_command_line_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'steps' is given twice \('3' and '4'\)"):
        layer_from_overrides(["steps=3", "steps=4"])


def test_an_override_that_is_not_yaml_is_text() -> None:
    assert layer_from_overrides(["dtype={["])["dtype"].value == "{["
    assert layer_from_overrides(["dtype=\x00"])["dtype"].value == "\x00"


def test_the_config_cannot_change(tmp_path: Path) -> None:
    path = tmp_path / "c.yml"
    path.write_text("")
    config = load_train_config(path, [])
    with pytest.raises(ValueError, match="frozen"):
        config.steps = 3  # type: ignore[misc]
