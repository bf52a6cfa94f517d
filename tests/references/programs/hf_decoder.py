"""Computes logits, loss and gradients of a decoder of Hugging Face's transformers, from given weights on given batches.

    python hf_decoder.py FOLDER…

reads from every folder `job.json` (the class of the config and its keys, and whether all floats are
float64, with the constants that our program holds in float32), `weights.npz` (by transformers' names) and
`batch.npz` (inputs, targets, positions, segment_ids, weights, each with the axes B, L), and writes `found.npz` there.
It needs torch and transformers and nothing else.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers


def run(folder: Path) -> None:
    """One job."""
    job = json.loads((folder / "job.json").read_text())
    if job["float64"]:
        use_float64()
    config = getattr(transformers, job["config"])(
        **job["keys"], attn_implementation="eager", experts_implementation="eager"
    )
    model = transformers.AutoModelForCausalLM.from_config(config).to(torch.float32)
    for module in model.modules() if job["float64"] else ():
        for name in set(job["held"]) & set(vars(module)):
            setattr(module, name, float(np.float32(getattr(module, name))))
    weights = {
        name: torch.from_numpy(array).to(torch.float32) for name, array in np.load(folder / "weights.npz").items()
    }
    reported = model.load_state_dict(weights, strict=False)
    assert not reported.unexpected_keys, reported.unexpected_keys
    assert all("rotary" in name for name in reported.missing_keys), reported.missing_keys
    batch = {name: torch.from_numpy(array) for name, array in np.load(folder / "batch.npz").items()}

    # a token attends to earlier tokens of its own text; their default mask suffices if each sequence is one text
    segments, length = batch["segment_ids"], batch["inputs"].shape[1]
    seen = torch.tril(torch.ones(length, length, dtype=torch.bool)) & (segments[:, :, None] == segments[:, None, :])
    mask = None if bool((segments == 1).all()) else torch.where(seen, 0.0, torch.finfo(torch.float32).min)[:, None]
    made = model(batch["inputs"].long(), attention_mask=mask, position_ids=batch["positions"].long(), use_cache=False,
                 output_router_logits=job["balance"] > 0 or None)  # fmt: skip
    each = torch.nn.functional.cross_entropy(
        made.logits.flatten(0, 1), batch["targets"].long().flatten(), reduction="none"
    )
    counted = batch["weights"].flatten()
    loss = (each * counted).sum() / counted.sum()
    if job["balance"]:
        balance = transformers.models.mixtral.modeling_mixtral.load_balancing_loss_func(
            made.router_logits, job["keys"]["num_local_experts"], job["keys"]["num_experts_per_tok"]
        )
        loss = loss + job["balance"] * balance
    loss.backward()
    found = {f"gradients/{name}": value.grad.numpy() for name, value in model.named_parameters()}
    found |= {"loss": loss.item(), "logits": made.logits.detach().numpy()}
    np.savez(folder / "found.npz", **found)


def use_float64() -> None:
    """Make float64 of what asks for float32, from now on: transformers' norms, softmax and rotary tables do."""
    torch.set_default_dtype(torch.float64)
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for name in sys.argv[1:]:
        run(Path(name))
