"""Reasons to refuse a run before its launch."""

import pytest

from configs.comparison import load_comparison, load_target
from configs.errors import ConfigError
from tasks.resolve.commands import NOWHERE, make_command
from tasks.resolve.plans import resolve_config
from tasks.resolve.trainers.trainer_source import TrainerSource


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
    bare = TrainerSource(commit=None, dirty=False, versions={"jax": "0.12.0"}, **own)
    with pytest.raises(ConfigError) as refused:
        make_command(place, bare, config, case="01_base", arm="nnx", repeat=0)
    assert reported in str(refused.value)
    able = bare.model_copy(update={"versions": bare.versions | {"libtpu": "1", "jax-cuda12-plugin": "1"}})
    command = make_command(place, able, config, case="01_base", arm="nnx", repeat=0)
    assert command.invoke(NOWHERE).argv[:3] == (able.python, "-m", "model.train")
