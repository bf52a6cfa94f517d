"""Trains a plain Llama-like decoder in torch, with torch's own AdamW, from given weights on given batches.

    python plain_trainer.py FOLDER…

reads from every folder `job.json` (our config), `weights.npz` (our names, layers along axis 1) and `batches.npz`
(arrays with the axes S, B, L), and writes `found.npz`: losses, norms, learning rates, and the parameters at the end.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
import torch

LAYER, MLP, HEADS = "decoder/layers/", "decoder/layers/mlp/", "decoder/layers/self_attention/"


def norm(x, scale, job):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + job["normalization_layer_epsilon"]) * scale


def rotate(x, positions, job):
    half = x.shape[-1] // 2
    angle = positions[:, :, None, None] / job["rope_max_timescale"] ** (torch.arange(half) / half)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()], -1)


def decode(weights, batch, job):
    """The logits of a batch."""
    positions, segments = batch["positions"].float(), batch["segment_ids"]
    seen = (segments[:, :, None] == segments[:, None, :]).tril()
    x = weights["token_embedder/embedding"][batch["inputs"].long()]
    for i in range(job["base_num_decoder_layers"]):
        of = {name: array[:, i] for name, array in weights.items() if name.startswith(LAYER)}
        inner = norm(x, of[LAYER + "pre_self_attention_layer_norm/scale"], job)
        query, key, value = (
            torch.einsum("ble,ehk->blhk", inner, of[f"{HEADS}{n}/kernel"]) for n in ("query", "key", "value")
        )
        query, key = rotate(query, positions, job), rotate(key, positions, job)
        shared = query.shape[2] // key.shape[2]
        key, value = key.repeat_interleave(shared, 2), value.repeat_interleave(shared, 2)
        logits = torch.einsum("blhk,bshk->bhls", query, key).masked_fill(~seen[:, None], -torch.inf)
        attended = torch.einsum("bhls,bshk->blhk", logits.softmax(-1), value)
        x = x + torch.einsum("blhk,hke->ble", attended, of[f"{HEADS}out/kernel"])
        inner = norm(x, of[LAYER + "post_self_attention_layer_norm/scale"], job)
        hidden = torch.nn.functional.silu(inner @ of[f"{MLP}wi_0/kernel"]) * (inner @ of[f"{MLP}wi_1/kernel"])
        x = x + hidden @ of[f"{MLP}wo/kernel"]
    return norm(x, weights["decoder/decoder_norm/scale"], job) @ weights["decoder/logits_dense/kernel"]


def rate(step, job):
    """Linear from 0 to the peak, then half a cosine that ends on the last step."""
    warmup = int(job["steps"] * job["warmup_steps_fraction"])
    if step < warmup:
        return job["learning_rate"] * step / warmup
    share = 0.5 * (1 + math.cos(math.pi * (step - warmup) / (job["steps"] - warmup - 1)))
    return job["learning_rate"] * (share + job["learning_rate_final_fraction"] * (1 - share))


def run(folder):
    """One job."""
    job = json.loads((folder / "job.json").read_text())
    weights = {
        name: torch.from_numpy(array).requires_grad_() for name, array in np.load(folder / "weights.npz").items()
    }
    batches = {name: torch.from_numpy(array) for name, array in np.load(folder / "batches.npz").items()}
    optimizer = torch.optim.AdamW(weights.values(), betas=(job["adam_b1"], job["adam_b2"]), eps=job["adam_eps"],
                                  weight_decay=job["adam_weight_decay"])  # fmt: skip
    steps = []
    for step in range(len(batches["inputs"])):
        batch = {name: array[step] for name, array in batches.items()}
        each = torch.nn.functional.cross_entropy(
            decode(weights, batch, job).flatten(0, 1), batch["targets"].long().flatten(), reduction="none"
        )
        loss = (each * batch["weights"].flatten()).sum() / batch["weights"].sum()
        optimizer.zero_grad()
        loss.backward()
        raw = torch.nn.utils.clip_grad_norm_(weights.values(), job["gradient_clipping_threshold"])
        optimizer.param_groups[0]["lr"] = rate(step, job)
        optimizer.step()
        after = torch.sqrt(sum((array.detach() ** 2).sum() for array in weights.values()))
        steps.append([loss.item(), raw.item(), after.item(), rate(step, job)])
    params = {f"params/{name}": array.detach().numpy() for name, array in weights.items()}
    np.savez(folder / "found.npz", steps=np.asarray(steps), **params)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[1:]:
        run(Path(name))
