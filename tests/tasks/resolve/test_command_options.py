"""Folders of outputs become the run's own; folders to read stay."""

from pathlib import Path

from tasks.resolve.command_options import redirect_outputs


def test_absolute_folders_of_outputs_are_the_runs_own() -> None:
    words = ["python", "t.py", "--workdir=/a/mnist", "--data_dir", "/data/c4", "--checkpoint-dir", "/a/ck", "out=here"]
    assert redirect_outputs(words) == [
        "python", "t.py", "--workdir={out}/mnist", "--data_dir", "/data/c4", "--checkpoint-dir", "{out}/ck", "out=here",
    ]  # fmt: skip


def test_a_folder_that_exists_is_redirected_only_if_it_is_written(tmp_path: Path) -> None:
    words = [f"--cfg.workdir={tmp_path}", f"--model_path={tmp_path}"]
    assert redirect_outputs(words) == [f"--cfg.workdir={{out}}/{tmp_path.name}", f"--model_path={tmp_path}"]
