"""Parts that are stripped from a program before it is hashed, and parts that must stay."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu, triton
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

from model.compile_record import strip_hlo, strip_stablehlo

pytestmark = pytest.mark.flows

type Kernel = Callable[..., None]

STABLEHLO = """#loc = loc(unknown)
#loc1 = loc("x.py":3:4 to :9)
module @jit_train_step {
  func.func public @main(%arg0: tensor<2xf32> loc("a" at callsite(#loc1 at #loc))) ->
    (tensor<2xf32> {jax.result_info = "[0].params['w']"}) {
    %0 = call @silu(%arg0) : (tensor<2xf32>) -> tensor<2xf32> loc(#loc2)
    return %0 : tensor<2xf32> loc(#loc)
  } loc(#loc)
  func.func private @silu(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    return %arg0 : tensor<2xf32>
  }
}
"""

HLO = """HloModule jit_train_step, entry_computation_layout={(f32[2]{0})->f32[2]{0}}

FileNames
1 "/a/x.py"

%fused (p: f32[2]) -> f32[2] {
  ROOT %exp.7 = f32[2]{0} exponential(%p), metadata={op_name="jit(train_step)/exp" source_line=3}
}
"""


def test_locations_result_names_and_function_names_do_not_count() -> None:
    stripped = strip_stablehlo(STABLEHLO)
    assert "loc(" not in stripped
    assert "params" not in stripped
    assert stripped == strip_stablehlo(STABLEHLO.replace("@silu", "@silu_12").replace("x.py", "y.py"))


def test_operations_types_and_wiring_count() -> None:
    for before, after in [
        ("tensor<2xf32>", "tensor<3xf32>"),
        ("return %0", "return %arg0"),
        ("call @silu", "call @main"),
    ]:
        assert strip_stablehlo(STABLEHLO) != strip_stablehlo(STABLEHLO.replace(before, after))


def test_metadata_source_tables_and_value_names_do_not_count() -> None:
    stripped = strip_hlo(HLO)
    assert "x.py" not in stripped
    assert "metadata" not in stripped
    assert stripped == strip_hlo(HLO.replace("exp.7", "exp.8").replace("source_line=3", "source_line=4"))
    assert stripped != strip_hlo(HLO.replace("exponential", "log"))


def test_the_origin_of_an_instruction_does_not_count() -> None:
    # as libtpu prints a replaced all-reduce on one device; the field is base64 of the original instruction
    kept = '%b = pred[] bitcast(%a), backend_config={"legalized":{"original_instruction":"Cg1h","x":1}}'
    assert strip_hlo(kept) == strip_hlo(kept.replace("Cg1h", "Dh2i"))
    assert strip_hlo(kept) != strip_hlo(kept.replace('"x":1', '"x":2'))


H100 = AbstractDevice(device_kind="NVIDIA H100 80GB HBM3", num_cores=132, platform="cuda")
SHAPE = jax.ShapeDtypeStruct((128, 128), jnp.float32)
KERNEL = """
def kernel(x, o):
    o[...] = x[...] * 2.0 + 1.0
"""


def lower_for_tpu(kernel: Kernel) -> str:
    return lower(pl.pallas_call(kernel, out_shape=SHAPE), "tpu")


def lower_with_triton(kernel: Kernel) -> str:
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # JAX calls Triton deprecated
        return lower(pl.pallas_call(kernel, out_shape=SHAPE, compiler_params=triton.CompilerParams()), "cuda")


def lower_with_mosaic_for_gpu(kernel: Kernel) -> str:
    return lower(mosaic_gpu.kernel(kernel, out_type=SHAPE), "cuda")


def lower(step: Callable[..., Any], platform: str) -> str:
    with use_abstract_mesh(AbstractMesh((1,), ("x",), abstract_device=H100 if platform == "cuda" else None)):
        return jax.jit(step).trace(SHAPE).lower(lowering_platforms=(platform,)).as_text()


def make_kernel(source: str, file: str) -> Kernel:
    names: dict[str, Any] = {}
    exec(compile(source, file, "exec"), names)
    kernel: Kernel = names["kernel"]
    return kernel


@pytest.mark.parametrize("lower_kernel", [lower_for_tpu, lower_with_triton, lower_with_mosaic_for_gpu])
def test_the_folder_and_lines_of_a_kernel_do_not_count_and_its_constants_do(
    lower_kernel: Callable[[Kernel], str],
) -> None:
    comment = "# ten lines of comment\n" * 10
    here = lower_kernel(make_kernel(KERNEL, "/a/kernel.py"))
    there = lower_kernel(make_kernel(comment + KERNEL, "/another/folder/kernel.py"))
    changed = lower_kernel(make_kernel(KERNEL.replace("2.0", "3.0"), "/a/kernel.py"))
    assert here != there
    assert strip_stablehlo(here) == strip_stablehlo(there)
    assert strip_stablehlo(here) != strip_stablehlo(changed)


def test_a_kernel_that_cannot_be_parsed_counts_byte_for_byte() -> None:
    text = lower_for_tpu(make_kernel(KERNEL, "/a/kernel.py"))
    # base64 of "ML\xefR", the version and "M"; JAX writes version 1
    versions = [text.replace("TUzvUgFN", f"TUzvU{version}N") for version in ("n5", "n9")]
    assert "TUzvUn5N" in strip_stablehlo(versions[0])
    assert strip_stablehlo(versions[0]) != strip_stablehlo(versions[1])
