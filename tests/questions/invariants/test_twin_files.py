"""Twin files: maxview's own are valid, and bad ones are refused with file, line and remedy."""

from pathlib import Path

import pytest

from configs.errors import ConfigError
from questions.invariants.twin_files import list_twins, load_twins, read_twin


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.yml"
    path.write_text("title: a = b\nwhy: because\n" + text)
    return path


def test_own_twins_are_valid_and_say_why() -> None:
    twins = load_twins()
    assert tuple(twin.name for twin in twins) == list_twins()
    assert len({twin.title for twin in twins}) == len(twins)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("left: {scan_layers: true}\nright: {scan_layers: true}\n", 4, "are equal"),
        ("right: {scan_layer: true}\n", 3, "did you mean 'scan_layers'"),
        ("right:\n  steps: many\n", 4, "steps: "),
        ("right: {ici_fsdp_parallelism: 16}\n", 3, "needs 16 devices, and 8 can be simulated"),
        ("right: {ici_fsdp_parallelism: 3}\n", 3, "needs 3 devices"),
        ("right: {ici_fsdp_parallelism: 4}\nboth: {ici_tensor_parallelism: 4}\n", 3, "needs 16 devices"),
        ("rigth: {scan_layers: true}\nright: {remat_policy: none}\n", 3, "did you mean 'right'"),
        ("right: {remat_policy: none}\nparameters: {qkv: {axis: 1}}\n", 4, "stack and concatenate"),
        ("right: {run_name: x}\n", 3, "leave it out"),
        ("trainers: [command]\nright: [--fast]\n", 3, "command"),
    ],
)
def test_bad_files_are_refused_with_file_and_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read_twin(path)
    assert f"{path}:{line}" in str(caught.value)
    assert words in str(caught.value)


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="did you mean 'scan'"):
        load_twins(("scam",))
