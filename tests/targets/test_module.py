"""Counts and faults of programs written by hand, whose bytes a reader can add up."""

import pytest

from snm.targets.account import Exchange, account
from snm.targets.faults import faults
from snm.targets.module import Module

TABLES = [(1000, 8)]


def program(lines: str, others: str = "") -> Module:
    return Module(
        f"HloModule test\n{others}\nENTRY %main (t: f32[1000,8]) -> f32[] {{\n{lines}\n}}\n"
    )


READ = """  %t = f32[1000,8]{1,0} parameter(0)
  %i = s32[5]{0} parameter(1)
"""


def test_a_gather_counts_its_rows_and_a_plain_read_the_whole_array():
    rows = program(READ + "  ROOT %g = f32[5,8]{1,0} gather(%t, %i), offset_dims={1}")
    assert account(rows).moved == 5 * 32 + 5 * 32 + 5 * 4  # rows read, rows written, ids
    whole = program(READ + "  ROOT %n = f32[1000,8]{1,0} negate(%t)")
    assert account(whole).moved == 2 * 1000 * 32


FUSED = """
%rows (p: f32[1000,8], q: s32[5]) -> f32[5,8] {
  %p = f32[1000,8]{1,0} parameter(0)
  %q = s32[5]{0} parameter(1)
  %g = f32[5,8]{1,0} gather(%p, %q), offset_dims={1}
  ROOT %n = f32[5,8]{1,0} negate(%g)
}
%written (p: f32[1000,8], q: s32[5], u: f32[5,8]) -> f32[1000,8] {
  %p = f32[1000,8]{1,0} parameter(0)
  %q = s32[5]{0} parameter(1)
  %u = f32[5,8]{1,0} parameter(2)
  ROOT %s = f32[1000,8]{1,0} scatter(%p, %q, %u), to_apply=%add
}
"""


def test_fusions_count_the_rows_that_they_touch():
    read = "  ROOT %f = f32[5,8]{1,0} fusion(%t, %i), kind=kLoop, calls=%rows"
    assert account(program(READ + read, FUSED)).moved == 5 * 32 + 5 * 4 + 5 * 32
    write = """  %u = f32[5,8]{1,0} parameter(2)
  ROOT %f = f32[1000,8]{1,0} fusion(%t, %i, %u), kind=kInput, calls=%written"""
    # Rows of the table read and written, ids, and the updates.
    assert account(program(READ + write, FUSED)).moved == 2 * 5 * 32 + 5 * 4 + 5 * 32


def test_memory_on_the_chip_is_left_out():
    text = READ + "  ROOT %g = f32[5,8]{1,0:T(8,128)S(1)} gather(%t, %i), offset_dims={1}"
    assert account(program(text)).moved == 5 * 32 + 5 * 4


def test_a_slice_counts_itself_and_not_what_it_is_cut_from():
    """XLA:TPU brings arrays to the chip in slices: of the source only the slice is read."""
    to_chip = """  %s = ((f32[1000,8]{1,0}), f32[250,8]{1,0:S(1)}, s32[]) slice-start(%t), slice={}
  ROOT %d = f32[250,8]{1,0:S(1)} slice-done(%s)"""
    assert account(program(READ + to_chip)).moved == 250 * 32
    plain = "  ROOT %s = f32[250,8]{1,0} slice(%t), slice={[0:250], [0:8]}"
    assert account(program(READ + plain)).moved == 2 * 250 * 32


LOOP = """
%body (c: (s32[], f32[64])) -> (s32[], f32[64]) {
  %c = (s32[], f32[64]{0}) parameter(0)
  %k = s32[] get-tuple-element(%c), index=0
  %x = f32[64]{0} get-tuple-element(%c), index=1
  %y = f32[64]{0} negate(%x)
  ROOT %r = (s32[], f32[64]{0}) tuple(%k, %y)
}
%until (c: (s32[], f32[64])) -> pred[] {
  %c.1 = (s32[], f32[64]{0}) parameter(0)
  %k.1 = s32[] get-tuple-element(%c.1), index=0
  %seven = s32[] constant(7)
  ROOT %lt = pred[] compare(%k.1, %seven), direction=LT
}
%open (c: (s32[], f32[64])) -> pred[] {
  %c.2 = (s32[], f32[64]{0}) parameter(0)
  %k.2 = s32[] get-tuple-element(%c.2), index=0
  ROOT %lt.2 = pred[] compare(%k.2, %k.2), direction=LT
}
"""
STARTED = """  %z = (s32[], f32[64]{0}) parameter(0)
  ROOT %w = (s32[], f32[64]{0}) while(%z), condition=%"""


def test_loops_count_as_often_as_the_text_tells():
    once = 2 * 64 * 4
    until = account(program(STARTED + "until, body=%body", LOOP))
    assert (until.moved, until.instructions) == (7 * once, 7)
    known = 'open, body=%body, backend_config={"known_trip_count":{"n":"3"}}'
    assert account(program(STARTED + known, LOOP)).moved == 3 * once
    found = account(program(STARTED + "open, body=%body", LOOP))
    assert (found.moved, found.unknown_loops) == (once, 1)
    found = account(program(STARTED + "open, body=%body", LOOP), default_trips=5)
    assert (found.moved, found.unknown_loops) == (5 * once, 1)


@pytest.mark.parametrize(
    ("precision", "kind"),
    [("", "default"), (", operand_precision={highest,highest}", "float32"),
     (", operand_precision={high,high}", "tensorfloat32")],
)  # fmt: skip
def test_products_count_by_precision(precision, kind):
    text = f"""  %a = f32[6,8]{{1,0}} parameter(0)
  %b = f32[9,8]{{1,0}} parameter(1)
  ROOT %d = f32[6,9]{{1,0}} dot(%a, %b), lhs_contracting_dims={{1}}{precision}"""
    assert account(program(text)).operations == {kind: 2 * 6 * 9 * 8}
    tpu = f"""  %a = bf16[6,8]{{1,0}} parameter(0)
  %b = bf16[9,8]{{1,0}} parameter(1)
  ROOT %d = f32[6,9]{{1,0}} convolution(%a, %b), dim_labels=bf_oi->bf{precision}"""
    assert account(program(tpu)).operations == {"bfloat16": 2 * 6 * 9 * 8}


@pytest.mark.parametrize(
    ("precision", "kind"),
    [("HIGHEST", "float32"), ("HIGH", "tensorfloat32"), ("DEFAULT", "default")],
)
def test_products_of_a_library_count_without_its_memory(precision, kind):
    """Six rows of 8 numbers with nine: the second result is what the library works with."""
    config = (
        '{"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],'
        f'"rhs_contracting_dimensions":["1"]}},"precision_config":{{"operand_precision":["{precision}",'
        f'"{precision}"]}}}}}}'
    )
    text = f"""  %a = f32[6,8]{{1,0}} parameter(0)
  %b = f32[9,8]{{1,0}} parameter(1)
  ROOT %d = (f32[6,9]{{1,0}}, s8[4194304]{{0}}) custom-call(%a, %b), \
custom_call_target="__cublas$lt$matmul", backend_config={config}"""
    found = account(program(text))
    assert found.operations == {kind: 2 * 6 * 9 * 8}
    assert found.moved == 4 * (6 * 8 + 9 * 8 + 6 * 9)


def test_collectives_are_counted_with_their_groups():
    text = """  %a = f32[16,8]{1,0} parameter(0)
  %s = f32[16,8]{1,0} all-reduce(%a), replica_groups={{0,1,2,3}}, to_apply=%add
  %g = (f32[16,8]{1,0}, f32[32,8]{1,0}) all-gather-start(%a), replica_groups=[2,2]<=[4]
  %alone = f32[16,8]{1,0} all-reduce(%a), replica_groups={{0},{1}}, to_apply=%add
  %c = f32[16,8]{1,0} collective-permute(%a), source_target_pairs={{0,1},{1,0}}
  %p = (f32[16,8]{1,0}, f32[16,8]{1,0}, u32[]{:S(2)}, u32[]{:S(2)}) \
collective-permute-start(%a), source_target_pairs={{0,1},{1,0}}
  ROOT %d = f32[32,8]{1,0} all-gather-done(%g)"""
    found = account(program(text))
    assert found.exchanges == [
        Exchange("all-reduce", 4, 512),
        Exchange("all-gather", 2, 1024),
        Exchange("collective-permute", 2, 512),
        Exchange("collective-permute", 2, 512),
    ]
    assert found.sent == 2 * 512 * 3 / 4 + 1024 / 2 + 2 * 512


CUT = """
%first (p: f32[8]) -> (f32[8], f32[32]) {
  %p = f32[8]{0} parameter(0)
  %g.1 = f32[32]{0} all-gather(%p), replica_groups={{0,1,2,3}}, frontend_attributes={chain_id="7"}
  ROOT %c = (f32[8]{0}, f32[32]{0}) custom-call(%g.1), custom_call_target="AsyncCollectiveStart"
}
%next (q: f32[8], x: f32[32]) -> f32[32] {
  %q = f32[8]{0} parameter(0)
  %x = f32[32]{0} parameter(1)
  %g.2 = f32[32]{0} all-gather(%q), replica_groups={{0,1,2,3}}, frontend_attributes={chain_id="7"}
  ROOT %n = f32[32]{0} negate(%x)
}
%last (r: f32[8]) -> f32[32] {
  %r = f32[8]{0} parameter(0)
  %g.3 = f32[32]{0} all-gather(%r), replica_groups={{0,1,2,3}}, frontend_attributes={chain_id="7"}
  ROOT %d = f32[32]{0} custom-call(%g.3), custom_call_target="AsyncCollectiveDone"
}
%whole (s: f32[8]) -> f32[8] {
  %s = f32[8]{0} parameter(0)
  ROOT %sum = f32[8]{0} all-reduce(%s), replica_groups={{0,1}}, to_apply=%add
}
"""


def test_a_collective_in_fusions_is_counted_once():
    """One that XLA:TPU cuts into a start, work beside it and an end; and one that is whole."""
    text = """  %a = f32[8]{0} parameter(0)
  %b = (f32[8]{0}, f32[32]{0}) fusion(%a), kind=kCustom, calls=%first
  %e = f32[32]{0} fusion(%a, %a), kind=kCustom, calls=%next
  %f = f32[32]{0} fusion(%a), kind=kCustom, calls=%last
  ROOT %h = f32[8]{0} fusion(%a), kind=kCustom, calls=%whole"""
    found = account(program(text, CUT))
    assert found.exchanges == [Exchange("all-gather", 4, 128), Exchange("all-reduce", 2, 32)]
    assert found.sent == 128 * 3 / 4 + 2 * 32 / 2


FAULTS = {
    "whole table made by copy": READ + "  ROOT %c = f32[1000,8]{1,0} copy(%t)",
    "whole table made by convert": READ + "  ROOT %c = bf16[1000,8]{1,0} convert(%t)",
    "sorts 2066 scores": """  %s = f32[4,2066]{1,0} parameter(0)
  %n = s32[4,2066]{1,0} parameter(1)
  ROOT %o = (f32[4,2066]{1,0}, s32[4,2066]{1,0}) sort(%s, %n), dimensions={1}""",
    "float64": READ + "  ROOT %d = f64[5]{0} convert(%i)",
    "waits for the host": READ
    + '  ROOT %h = f32[5]{0} custom-call(%i), custom_call_target="xla_ffi_python_gpu_callback"',
}


@pytest.mark.parametrize("told", FAULTS)
def test_each_fault_is_found(told):
    (fault,) = faults(program(FAULTS[told]), TABLES, 512)
    assert told in fault


def test_updates_in_place_are_no_fault():
    write = """  %u = f32[5,8]{1,0} parameter(2)
  %f = f32[1000,8]{1,0} fusion(%t, %i, %u), kind=kInput, calls=%written
  ROOT %s = f32[1000,8]{1,0} scatter(%f, %i, %u), to_apply=%add"""
    assert not faults(program(READ + write, FUSED), TABLES, 512)
