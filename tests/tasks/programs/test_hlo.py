"""Programs with hand-counted work: loops, products, collectives."""

import pytest

from tasks.programs.hlo import read_program
from tasks.programs.loops import count_runs
from tasks.programs.program_work import analyse_program, locate

# a loop of {trips} rounds; in each a product of [8,16] and [16,32], and a gather of the second operand's halves
LOOP = """\
HloModule jit_step, is_scheduled=true, input_output_alias={{ {{0}}: (0, {{}}, may-alias) }}

%product (left: bf16[8,16], right: bf16[16,32]) -> bf16[8,32] {{
  %left = bf16[8,16]{{1,0}} parameter(0)
  %right = bf16[16,32]{{1,0}} parameter(1)
  ROOT %dot.1 = bf16[8,32]{{1,0}} convolution(%left, %right), dim_labels=bf_io->bf
}}, execution_thread="main"

%body (state: (s32[], bf16[8,16], bf16[8,32])) -> (s32[], bf16[8,16], bf16[8,32]) {{
  %state = (s32[], bf16[8,16], bf16[8,32]) parameter(0)
  %at = s32[] get-tuple-element(%state), index=0
  %one = s32[] constant({step})
  %next = s32[] add(%at, %one)
  %x = bf16[8,16]{{1,0}} get-tuple-element(%state), index=1
  %half = bf16[8,32]{{1,0}} get-tuple-element(%state), index=2
  %whole = bf16[16,32]{{1,0}} all-gather(%half), channel_id=1, replica_groups={{{{0,1}}}}, dimensions={{0}}, \
metadata={{op_name="jit(step)/jvp(Decoder)/decoder/while/body/layers/mlp/wi/convert_element_type"}}
  %made = bf16[8,32]{{1,0}} fusion(%x, %whole), kind=kOutput, calls=%product, \
metadata={{op_name="jit(step)/jvp(Decoder)/decoder/while/body/layers/mlp/wi/BE,EF->BF/dot_general"}}, \
backend_config={{"window_config":{{"estimated_cycles":"100"}}}}
  ROOT %out = (s32[], bf16[8,16], bf16[8,32]) tuple(%next, %x, %made)
}}

%condition (state.1: (s32[], bf16[8,16], bf16[8,32])) -> pred[] {{
  %state.1 = (s32[], bf16[8,16], bf16[8,32]) parameter(0)
  %at.1 = s32[] get-tuple-element(%state.1), index=0
  %limit = s32[] constant({limit})
  ROOT %less = pred[] compare(%at.1, %limit), direction={direction}
}}

ENTRY %main (x.1: bf16[8,16], half.1: bf16[8,32]) -> (s32[], bf16[8,16], bf16[8,32]) {{
  %x.1 = bf16[8,16]{{1,0}} parameter(0)
  %half.1 = bf16[8,32]{{1,0}} parameter(1)
  %start = s32[] constant({start})
  %first = (s32[], bf16[8,16], bf16[8,32]) tuple(%start, %x.1, %half.1)
  ROOT %loop = (s32[], bf16[8,16], bf16[8,32]) while(%first), condition=%condition, body=%body
}}
"""


@pytest.mark.parametrize(
    ("start", "direction", "limit", "step", "trips"),
    [(0, "LT", 7, 1, 7), (3, "LT", 7, 1, 4), (0, "LE", 7, 1, 8), (7, "GT", 0, -1, 7), (0, "LT", 7, 2, 4)],
)
def test_a_loops_trip_count_is_found(start: int, direction: str, limit: int, step: int, trips: int) -> None:
    text = LOOP.format(start=start, direction=direction, limit=limit, step=step)
    found = analyse_program(text.splitlines(keepends=True)).work
    assert found.unknown_loops == 0
    assert found.work.flops == trips * 2 * 8 * 16 * 32
    assert found.work.cycles == trips * 100
    assert found.work.collective_bytes == trips * 16 * 32 * 2
    assert [(one.kind, one.in_loop, one.executions) for one in found.collectives] == [("all-gather", True, trips)]
    assert found.aliases == 1


def test_a_loop_with_an_unknown_trip_count_is_reported() -> None:
    text = LOOP.format(start=0, direction="LT", limit=7, step=1).replace("constant(0)", "parameter(2)")
    assert analyse_program(text.splitlines(keepends=True)).work.unknown_loops == 1


def test_an_instruction_has_its_line_and_place() -> None:
    text = LOOP.format(start=0, direction="LT", limit=7, step=1)
    whole = read_program(text.splitlines(keepends=True)).computations["body"].instructions["whole"]
    assert text.splitlines()[whole.line - 1].lstrip().startswith("%whole = ")
    assert text.encode()[whole.offset :].lstrip().startswith(b"%whole = ")


@pytest.mark.parametrize(
    ("labels", "window", "left", "right", "out", "products"),
    [
        # a 3-wide window over 5 values without padding: 3 places × 3; with it 5 × 3 less the 2 that fall outside
        ("b0f_0io->b0f", "size=3", "1,5,2", "3,2,4", "1,3,4", 3 * 3 * 2 * 4),
        ("b0f_0io->b0f", "size=3 pad=1_1", "1,5,2", "3,2,4", "1,5,4", (5 * 3 - 2) * 2 * 4),
        # a TPU's form of a batch of 4 products: an axis whose holes let only one pair of each meet
        ("0bf_0io->0bf", "size=4 stride=3 pad=0_0 lhs_dilate=4", "4,8,16", "4,16,32", "4,8,32", 4 * 8 * 16 * 32),
    ],
)
def test_products_with_padding_or_holes_do_not_count(
    labels: str, window: str, left: str, right: str, out: str, products: int
) -> None:
    text = f"""HloModule m
ENTRY %main (a: f32[{left}], b: f32[{right}]) -> f32[{out}] {{
  %a = f32[{left}] parameter(0)
  %b = f32[{right}] parameter(1)
  ROOT %c = f32[{out}] convolution(%a, %b), window={{{window}}}, dim_labels={labels}
}}
"""
    assert analyse_program(text.splitlines(keepends=True)).work.work.flops == 2 * products


def test_a_permutes_runtime_counters_are_not_counted() -> None:
    text = """HloModule m
ENTRY %main (a: bf16[8,32]) -> bf16[8,32] {
  %a = bf16[8,32] parameter(0)
  %b = (bf16[8,32], bf16[8,32], u32[], u32[]) collective-permute-start(%a), source_target_pairs={{0,1},{1,0}}
  ROOT %c = bf16[8,32] collective-permute-done(%b)
}
"""
    assert analyse_program(text.splitlines(keepends=True)).work.work.collective_bytes == 8 * 32 * 2


def test_a_text_without_a_program_is_refused() -> None:
    with pytest.raises(ValueError, match="no ENTRY"):
        read_program(["module @jit_step {\n", "}\n"])


@pytest.mark.parametrize(
    ("op_name", "place"),
    [
        ("jit(train_step)/jvp(Decoder)/decoder/while/body/eval_jaxpr/layers/mlp/wi_0/BLE,EF->BLF/dot_general",
         ("forward", "decoder/layers/mlp/wi_0")),
        ("jit(step)/transpose(jvp(Decoder))/decoder/while/body/eval_jaxpr/checkpoint/rematted_computation/layers/mlp/mul",
         ("recomputed", "decoder/layers/mlp")),
        ("jit(step)/transpose(jvp(Decoder))/decoder/logits_dense/dot_general", ("backward", "decoder/logits_dense")),
        ("jit(train_step)/add", ("update", "")),
        ("", ("update", "")),
    ],
)  # fmt: skip
def test_a_name_gives_the_pass_and_the_scope(op_name: str, place: tuple[str, str]) -> None:
    assert locate(op_name) == place


def test_line_breaks_in_a_kernel_do_not_end_a_computation() -> None:
    """Splash's attributes contain line breaks in the output of libtpu 0.0.50."""
    text = """HloModule m
ENTRY %main (a: bf16[4,8], b: bf16[8,2]) -> bf16[4,2] {
  %a = bf16[4,8] parameter(0)
  %k = bf16[4,8] custom-call(%a), custom_call_target="tpu_custom_call", frontend_attributes={kernel_metadata={
"xprof_metadata":"{\\"block_q\\": 512}"
}}, metadata={op_name="jit(step)/jvp(Decoder)/layers/splash/call"}
  %b = bf16[8,2] parameter(1)
  ROOT %c = bf16[4,2] convolution(%k, %b), dim_labels=bf_io->bf
}
"""
    found = analyse_program(text.splitlines(keepends=True))
    assert found.work.work.flops == 2 * 4 * 8 * 2
    (kernel,) = [unit for unit in found.units if unit.kind == "kernel"]
    assert locate(kernel.instruction.op_name) == ("forward", "layers/splash")


def test_runs_of_a_computation_with_two_callers_add_up() -> None:
    text = """HloModule m
%twice (a: f32[4]) -> f32[4] {
  %a = f32[4] parameter(0)
  ROOT %b = f32[4] add(%a, %a)
}
ENTRY %main (c: f32[4]) -> f32[4] {
  %c = f32[4] parameter(0)
  %d = f32[4] call(%c), to_apply=%twice
  ROOT %e = f32[4] call(%d), to_apply=%twice
}
"""
    assert count_runs(read_program(text.splitlines(keepends=True)))[0]["twice"].times == 2
