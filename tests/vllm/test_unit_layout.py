"""Where the bytes of a block lie, for the layouts of several attention back ends."""

import pytest
from fakes import FakeTensor
from kvasir.vllm.layout import LayoutError, layout_of
from kvasir.vllm.memory import HostMemory


def test_layout_of_blocks_first_is_one_piece_per_layer():
    tensors = {"l0": FakeTensor((8, 2, 4, 6), item=2), "l1": FakeTensor((8, 2, 4, 6), item=2)}
    layout = layout_of(tensors, 8)
    assert [p.length for p in layout.pieces] == [96, 96]
    assert layout.block_bytes == 192
    assert [p.step for p in layout.pieces] == [96, 96]


def test_layout_of_keys_and_values_apart_is_two_pieces_per_layer():
    layout = layout_of({"l0": FakeTensor((2, 8, 4, 6))}, 8)
    first, second = layout.pieces
    assert second.address - first.address == 8 * 24
    assert (first.step, first.length) == (24, 24)


def test_layout_of_turned_inner_dimensions_is_dense_memory():
    tensor = FakeTensor((8, 2, 4, 6), stride=(48, 6, 12, 1))
    assert layout_of({"l0": tensor}, 8).block_bytes == 48


def test_layout_of_smaller_kernel_blocks_joins_them():
    layout = layout_of({"l0": FakeTensor((32, 4, 6))}, 8)
    assert (layout.pieces[0].step, layout.pieces[0].length) == (96, 96)


def test_layout_of_all_layers_of_a_block_together_is_one_piece():
    whole = FakeTensor((8, 3, 10))
    base = whole.data_ptr()
    tensors = {
        f"l{i}": FakeTensor((8, 10), stride=(30, 1), address=base + 10 * i) for i in range(3)
    }
    layout = layout_of(tensors, 8)
    assert len(layout.pieces) == 1
    assert (layout.pieces[0].step, layout.pieces[0].length) == (30, 30)


@pytest.mark.parametrize(
    ("shape", "stride"),
    [((8, 4, 6), (48, 12, 1)), ((8, 4, 6), (24, 6, 2)), ((7, 4), None), ((3, 3, 8), None)],
)
def test_layout_with_holes_or_without_blocks_is_refused_by_name(shape, stride):
    with pytest.raises(LayoutError, match="layer l0"):
        layout_of({"l0": FakeTensor(shape, stride=stride)}, 8)


def test_layout_of_something_else_than_a_tensor_is_refused():
    with pytest.raises(LayoutError, match="layer l0: list"):
        layout_of({"l0": []}, 8)
    with pytest.raises(LayoutError, match="no KV tensors"):
        layout_of({}, 8)


def test_layout_description_does_not_depend_on_the_number_of_blocks():
    apart = [layout_of({"l0": FakeTensor((2, n, 4, 6))}, n).description for n in (8, 16)]
    first = [layout_of({"l0": FakeTensor((n, 4, 6))}, n).description for n in (8, 16)]
    assert apart[0] == apart[1]
    assert first[0] == first[1]
    assert apart[0] != first[0]


def test_host_memory_shows_exactly_the_block():
    tensor = FakeTensor((2, 8, 3))
    memory = HostMemory(layout_of({"l0": tensor}, 8))
    for piece, value in zip(memory.block(5), (b"abc", b"xyz")):
        piece[:] = value
    whole = bytes(tensor.bytes())
    assert whole[15:18] == b"abc"
    assert whole[24 + 15 : 24 + 18] == b"xyz"
    assert whole.count(0) == 42
    with pytest.raises(IndexError):
        memory.block(8)
    with pytest.raises(IndexError):
        memory.block(-1)
