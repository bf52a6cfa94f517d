"""Logs training in MaxText's format, so that parsers of MaxText's logs can read these logs."""

import importlib.metadata
import sys
from collections.abc import Mapping
from typing import Any

import jax
import jax.extend.backend
import numpy as np
from absl import logging
from jax.sharding import Mesh

from configs.schema import TrainConfig
from model.decoder.declaration import Declaration
from model.decoder.params import count_params
from model.decoder.sharding import mesh_spec
from model.train.flops import StepFlops, step_flops, tokens_per_device
from model.train.metrics_file import Number

GIB = 2**30
EXTRA_LOSSES = ("moe_lb_loss",)  # auxiliary losses that a step's line shows


def print_line(text: str) -> None:
    """Print one line without the logger's prefix. It is flushed, because launchers merge stdout with the log."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def log_config(config: TrainConfig) -> None:
    """Log one line per config value."""
    for key, value in sorted(config.model_dump().items()):
        logging.info("Config param %s: %s", key, value)


def log_system() -> None:
    """Log the versions of the software."""
    logging.info("System Information: Jax Version: %s", jax.__version__)
    logging.info("System Information: Jaxlib Version: %s", importlib.metadata.version("jaxlib"))
    logging.info("System Information: Jax Backend: %s", jax.extend.backend.get_backend().platform_version)
    logging.info("System Information: Device Kind: %s", jax.devices()[0].device_kind)


def log_devices(mesh: Mesh) -> None:
    """Log the number of devices and the shape of the mesh."""
    logging.info("Num_devices: %d, shape %s", mesh.size, tuple(mesh.shape.values()))


def log_mesh(mesh: Mesh) -> None:
    """Print the mesh axes whose size is more than 1."""
    for axis, size in mesh.shape.items():
        if size > 1:
            print_line(f"{axis}: {size}")


def log_parameters(declared: dict[str, Declaration], mesh: Mesh) -> None:
    """Log path, dtype, shape, logical and physical axes of every parameter, with MaxText's prefix `params/`."""
    for path, one in sorted(declared.items()):
        physical = tuple(axis if axis is None or mesh.shape[axis] > 1 else None for axis in mesh_spec(one.axes))
        shape = f"{jax.numpy.dtype(one.dtype)}[{','.join(map(str, one.shape))}]"
        places = f"    Logical:   P{one.axes!r}\n    Physical:  {physical}"
        logging.info(" params/%s\n    Shape:     %s\n%s", path, shape, places)
    print_line("")


def log_compiled_memory(stats: Any) -> None:
    """Log the compiler's estimate of memory per device. Memory that arguments and outputs share counts once."""
    if stats is None:
        return
    output, temp, argument, alias, host_temp = (
        getattr(stats, f"{name}_size_in_bytes") / GIB for name in ("output", "temp", "argument", "alias", "host_temp")
    )
    total = output + temp + argument - alias
    sizes = {"Total memory": total, "Output": output, "Temp": temp, "Argument": argument, "Host temp": host_temp}
    logging.info("%s.", ", ".join(f"{name} size: {size:.1f} GB" for name, size in sizes.items()))


def log_parameter_count(declared: dict[str, Declaration]) -> None:
    """Log the number of parameters."""
    logging.info("number parameters: %.3f billion", count_params(declared) / 1e9)


def log_device_memory(label: str) -> None:
    """Log the memory in use on each local device, or why it is unknown."""
    logging.info("\nMemstats: %s:", label)
    for device in jax.local_devices():
        stats = device.memory_stats()
        if not stats or "bytes_limit" not in stats:
            logging.info("\tMemstats unavailable, error: the %s backend reports none", device.platform)
            return
        used, limit = round(stats["bytes_in_use"] / GIB, 2), round(stats["bytes_limit"] / GIB, 2)
        logging.info("\tUsing (GB) %s / %s (%s) on %s", used, limit, f"{used / limit:%}", device)


def log_step(config: TrainConfig, *, step: int, seconds: float, metrics: Mapping[str, Number]) -> None:
    """Log one step as MaxText 0.2.4 does; auxiliary losses come before the perplexity."""
    tflops, tokens = step_flops(config).total_t / seconds, tokens_per_device(config) / seconds
    speed = f"seconds: {seconds:.3f}, TFLOP/s/device: {tflops:.3f}, Tokens/s/device: {tokens:.3f}"
    losses = {name: metrics[name] for name in ("loss", "lm_loss", *EXTRA_LOSSES) if name in metrics}
    losses["perplexity"] = perplexity(metrics["lm_loss"])
    losses_text = ", ".join(f"{name}: {value:.3f}" for name, value in losses.items())
    logging.info("completed step: %d, %s, total_weights: %d, %s", step, speed, metrics["total_weights"], losses_text)


def perplexity(lm_loss: Number) -> np.float32:
    """Return exp(loss): the number of tokens from which a uniform choice has this loss; inf if it overflows."""
    with np.errstate(over="ignore"):
        return np.float32(np.exp(np.float32(lm_loss)))


def log_flops(flops: StepFlops) -> None:
    """Print the FLOPs block that ends MaxText's logs."""
    print_line(
        f"Per train step:\n Total TFLOPs: {flops.total_t:.2f} \n"
        f" split as {100 * flops.weights_t / flops.total_t:.2f}% learnable weight flops"
        f" and {100 * flops.attention_t / flops.total_t:.2f}% attention flops"
    )
