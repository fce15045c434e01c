"""What a call of the kernel counts for, in programs written by hand."""

import pytest

from snm.targets.account import account
from snm.targets.module import Module

READ = """  %q = f32[6,8]{1,0} parameter(0)
  %r = f32[100,8]{1,0} parameter(1)
  %m = s32[4,6]{1,0:T(8,128)S(1)} parameter(2)
"""


def program(lines: str) -> Module:
    return Module(f"HloModule test\n\nENTRY %main (q: f32[6,8]) -> f32[] {{\n{READ}{lines}\n}}\n")


@pytest.mark.parametrize(("blocks", "kind"), [(1, "float32"), (3, "bfloat16")])
def test_all_rows_are_read_for_each_block_of_queries(blocks, kind):
    call = f"""  ROOT %product_top_k_{kind}_{blocks}_blocks.1 = (f32[2,6]{{1,0}}, s32[2,6]{{1,0}})
 custom-call(%q, %r, %m), custom_call_target="tpu_custom_call" """
    found = account(program(call.replace("\n ", " ")))
    best, queries, rows = 2 * 2 * 6 * 4, 6 * 8 * 4, 100 * 8 * 4  # the bits are on the chip
    assert found.moved == best + queries + blocks * rows
    assert found.operations == {kind: 2 * 6 * 100 * 8}


def test_other_calls_are_not_the_kernel():
    call = '  ROOT %other.1 = f32[6,8]{1,0} custom-call(%q), custom_call_target="tpu_custom_call"'
    found = account(program(call))
    assert found.moved == 2 * 6 * 8 * 4 and not found.operations
