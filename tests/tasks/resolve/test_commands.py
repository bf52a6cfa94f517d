"""Reasons to refuse a run before its launch, and the command that compiles an arm's step for a slice."""

from pathlib import Path
from typing import Any

import pytest

from configs.comparison import load_comparison, load_target
from configs.custom_trainer import CommandTemplate
from configs.errors import ConfigError
from configs.schema import OWN_KEYS, TrainConfig
from configs.topologies import find_topology
from tasks.resolve.arm_config import resolve_config
from tasks.resolve.commands import NOWHERE, make_command
from tasks.resolve.trainers.command_trainer import CustomTrainer
from tasks.resolve.trainers.maxtext import MaxText
from tasks.resolve.trainers.maxtext_trainer import MaxTextTrainer, name_in_maxtext
from tasks.resolve.trainers.maxview_trainer import MaxviewTrainer


@pytest.mark.parametrize(
    ("target", "python", "reported"),
    [
        ("tpu", None, "(libtpu) is not installed: uv sync --extra tpu"),
        ("gpu", None, "(jax-cuda13-plugin or jax-cuda12-plugin) is not installed: uv sync --extra cuda"),
        ("gpu", "/its/python", "is not installed for 'nnx': /its/python needs jax[cuda13] or jax[cuda12]"),
    ],
)
def test_a_device_without_its_jax_plugin(target: str, python: str | None, reported: str) -> None:
    place = load_target(target)
    config = resolve_config(load_comparison("linen-vs-nnx"), place, case="01_base", arm="nnx").config
    own = {} if python is None else {"python": python}
    bare = MaxviewTrainer(commit=None, dirty=False, versions={"jax": "0.12.0"}, **own)
    with pytest.raises(ConfigError) as refused:
        make_command(place, bare, config, arm="nnx")
    assert reported in str(refused.value)
    able = bare.replace(versions=bare.versions | {"libtpu": "1", "jax-cuda12-plugin": "1"})
    command = make_command(place, able, config, arm="nnx")
    assert command.invoke(NOWHERE).argv[:3] == (able.python, "-m", "model.train")


SLICE = find_topology("v6e:4x8")


@pytest.fixture
def config() -> TrainConfig:
    comparison, target = load_comparison("linen-vs-nnx"), load_target("v6e-32")
    return resolve_config(comparison, target, case="01_base", arm="linen").config


FACTS: dict[str, Any] = {"commit": None, "dirty": False, "versions": {}, "python": "/venv/bin/python"}


def test_our_own_trainer_is_compiled_from_its_source(config: TrainConfig) -> None:
    trainer = MaxviewTrainer(**FACTS, folder="/checkouts/abc")
    command = trainer.invoke_compile(config, SLICE, Path("/out/linen"))
    assert command.argv == (
        "/venv/bin/python", "-m", "model.compile", "/out/linen/config.yml",
        "--out", "/out/linen", "--topology", "v6e:4x8",
    )  # fmt: skip
    assert command.environment["JAX_PLATFORMS"] == "cpu"
    assert "MAXVIEW_PROGRAMS" not in command.environment
    shared = trainer.invoke_compile(config, SLICE, Path("/out/linen"), Path("/programs"))
    assert shared.argv == command.argv  # an argument that every commit's trainer supports
    assert shared.environment["MAXVIEW_PROGRAMS"] == "/programs"


def test_maxtext_is_compiled_by_its_own_program(config: TrainConfig) -> None:
    maxtext = MaxText(
        python="/mt/bin/python",
        package="/mt/lib/maxtext",
        module="maxtext.trainers.pre_train.train",
        versions={"maxtext": "0.2.4"},
        keys=frozenset(TrainConfig.model_fields) - OWN_KEYS.keys() | {"enable_nnx", "skip_jax_distributed_system"},
        pure_nnx_values=frozenset({False, True}),
    )
    command = MaxTextTrainer(**FACTS, maxtext=maxtext).invoke_compile(config, SLICE, Path("/out/mt"))
    python, safe, keeper, *words = command.argv
    assert (python, safe) == ("/mt/bin/python", "-P")
    assert Path(keeper).is_file()
    split = words.index("maxtext.trainers.pre_train.train_compile")
    assert dict(zip(words[:split:2], words[1:split:2], strict=True)) == {
        "--out": "/out/mt", "--topology": "v6e:4x8", "--devices": "32", "--hbm-bytes": str(SLICE.hbm_bytes),
    }  # fmt: skip
    assert words[split + 1] == "/mt/lib/maxtext/configs/base.yml"
    assert {"compile_topology=v6e-32", "compile_topology_num_slices=1", "hardware=tpu", "pure_nnx=false"} <= set(words)


@pytest.mark.parametrize(
    ("topology", "name"),
    # from MaxText 0.2.4's accelerator_to_spec_map.py
    [("v6e:4x8", "v6e-32"), ("v5e:16x16", "v5e-256"), ("v5p:2x4x4", "v5p-64"), ("v7x:2x2x4", "tpu7x-32")],
)
def test_maxtext_has_other_names_for_slices(topology: str, name: str) -> None:
    assert name_in_maxtext(find_topology(topology)) == name


def test_a_custom_program_has_no_compile(config: TrainConfig) -> None:
    template = CommandTemplate(argv=("train.sh", "{steps}"), folder="/x")
    with pytest.raises(ConfigError, match="cannot be compiled ahead of time"):
        CustomTrainer(**FACTS, template=template, program="/x").invoke_compile(config, SLICE, Path("/out/x"))
