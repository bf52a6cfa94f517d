"""Our real trainer on real text against a plain one in torch, from the same weights on the same batches."""

import json
import sysconfig
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.references.decoders import write_plain_job
from tests.references.our_step import mini
from tests.references.run_program import run_program

pytestmark = [pytest.mark.long, pytest.mark.by_hand]
STEPS = 60


def test_sixty_steps_on_pythons_own_sources_reach_the_plain_trainers_loss(
    torch_python: str, pure_nnx: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every line of a module of the standard library is a text; several share a sequence."""
    from model.decoder.sharding import make_mesh
    from model.train.api import make_api, name_arrays
    from model.train.data_source import make_source
    from model.train.loop import train
    from model.train.step import declare_state, init_state
    from model.train.stop import StopSignal

    source = Path(sysconfig.get_path("stdlib")) / "argparse.py"
    config = mini(
        "08_packing", pure_nnx=pure_nnx, steps=STEPS, learning_rate=3e-3, warmup_steps_fraction=0.1, vocab_size=384,
        max_target_length=96, per_device_batch_size=4, grain_train_files=source, base_output_directory=tmp_path,
    )  # fmt: skip
    mesh, api = make_mesh(config, jax.devices()[:1]), make_api(config)
    # one device here too: tests/model gives the process eight devices, and a batch is per device
    monkeypatch.setattr("model.train.loop.make_mesh", lambda config: mesh)
    state = init_state(declare_state(config, api, mesh))
    prefix = "params/params/"
    weights = {
        name.removeprefix(prefix): np.asarray(array)
        for name, array in name_arrays(api, state).items()
        if name.startswith(prefix)
    }
    data = make_source(config, mesh)
    batches = [{name: np.asarray(array) for name, array in data.next()._asdict().items()} for _ in range(STEPS)]
    first = batches[0]["inputs"][0][batches[0]["segment_ids"][0] == 1]
    # model/train/tokens.py: three tokens before the bytes
    text = bytes(int(token) - 3 for token in first if token >= 3)
    assert any(text.strip() and text in line for line in source.read_bytes().split(b"\n"))

    folder = tmp_path / "plain"
    folder.mkdir()
    write_plain_job(folder, config, weights, batches)
    run_program(torch_python, "plain_trainer.py", folder)
    expected = np.load(folder / "found.npz")["steps"]

    assert train(config, StopSignal()) == 0
    logged = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    columns = ("loss", "raw_grad_norm", "param_norm", "learning_rate")
    found = np.asarray([[row[key] for key in columns] for row in logged])
    assert found[0, 0] - found[-1, 0] > 1  # it learns: from ln 384 downwards
    np.testing.assert_allclose(found[:, 0], expected[:, 0], rtol=0, atol=1e-4)
    np.testing.assert_allclose(found[:, 2:], expected[:, 2:], rtol=1e-4)
