"""The staged copy, with CPU tensors: the same bytes as the direct way, in both directions."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from kvasir.vllm.layout import layout_of
from kvasir.vllm.memory import HostMemory, StagedMemory

SHAPES = {"blocks first": (8, 2, 4, 6), "keys and values apart": (2, 8, 4, 6), "small": (32, 4, 6)}


def tensors(shape):
    torch.manual_seed(1)
    return {f"l{i}": torch.randn(shape).to(torch.bfloat16) for i in range(2)}


def joined(pieces):
    return b"".join(bytes(p) for p in pieces) if isinstance(pieces, list) else bytes(pieces)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_staged_memory_reads_what_host_memory_reads(shape):
    caches = tensors(shape)
    layout = layout_of(caches, 8)
    direct, staged = HostMemory(layout), StagedMemory(layout, caches)
    blocks = [5, 0, 7]
    rows = staged.for_save(blocks, staged.fence())
    assert [bytes(row) for row in rows] == [joined(direct.block(b)) for b in blocks]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_staged_memory_writes_only_good_blocks(shape):
    caches = tensors(shape)
    layout = layout_of(caches, 8)
    direct, staged = HostMemory(layout), StagedMemory(layout, caches)
    before = [joined(direct.block(b)) for b in range(8)]
    rows = staged.for_load([6, 1, 3])
    for row, value in zip(rows, (11, 22, 33)):
        row[:] = value
    staged.loaded([6, 1, 3], [True, False, True])
    after = [joined(direct.block(b)) for b in range(8)]
    assert after[6] == bytes([11]) * layout.block_bytes
    assert after[3] == bytes([33]) * layout.block_bytes
    assert [a for i, a in enumerate(after) if i not in (3, 6)] == [
        b for i, b in enumerate(before) if i not in (3, 6)
    ]
    staged.loaded([6], [False])
