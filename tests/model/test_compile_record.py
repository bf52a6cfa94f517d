"""Parts that are stripped from a program before it is hashed, and parts that must stay."""

from model.compile_record import strip_hlo, strip_stablehlo

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
