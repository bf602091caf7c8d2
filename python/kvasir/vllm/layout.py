"""Where a block's bytes lie in the engine's KV tensors.

One value holds all layers of one block: the pieces of each layer in the order in which vLLM names
the layers. Taken from the tensors as they were registered, never assumed; shapes and strides are
part of the fingerprint, so raw bytes may be copied whatever the order of the dimensions is, as long
as each piece is dense memory.

The tensors need ``shape``, ``stride()``, ``element_size()``, ``data_ptr()``, ``dtype`` and
``device``; nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class LayoutError(ValueError):
    """The KV tensors are laid out in a way that this connector cannot store; says which and how."""


@dataclass(frozen=True)
class Piece:
    """One dense run of bytes of every block: block b begins at address + b * step."""

    layer: str
    address: int
    step: int
    length: int


@dataclass(frozen=True)
class Layout:
    """All pieces of a block, in the order in which a value holds them."""

    pieces: tuple[Piece, ...]
    block_count: int
    description: tuple[str, ...]  # per layer: goes into the fingerprint

    @property
    def block_bytes(self) -> int:
        return sum(piece.length for piece in self.pieces)


def _merged(pieces: list[Piece]) -> list[Piece]:
    """Pieces that are neighbours in every block become one (a layout that keeps all layers of a
    block together needs a single one)."""
    merged = pieces[:1]
    for piece in pieces[1:]:
        last = merged[-1]
        if piece.step == last.step and last.address + last.length == piece.address:
            merged[-1] = Piece(last.layer, last.address, last.step, last.length + piece.length)
        else:
            merged.append(piece)
    return merged


def layout_of(kv_caches: Mapping[str, Any], block_count: int) -> Layout:
    """The layout of registered KV tensors; LayoutError when one is not supported."""
    pieces: list[Piece] = []
    description: list[str] = []
    for name, tensor in kv_caches.items():
        if not hasattr(tensor, "data_ptr"):
            raise LayoutError(f"layer {name}: {type(tensor).__name__} is not one tensor")
        pieces += _pieces_of(name, tensor, block_count)
        description.append(_describe(name, tensor, block_count))
    if not pieces:
        raise LayoutError("no KV tensors were registered")
    return Layout(tuple(_merged(pieces)), block_count, tuple(description))


def _describe(name: str, tensor: Any, block_count: int) -> str:
    """The form of one block; neither the number of blocks nor what depends on it, so that engines
    with more or less memory share their blocks."""
    shape, stride = tuple(tensor.shape), tuple(tensor.stride())
    dim = block_dim(name, tensor, block_count)
    return (
        f"{name} {tensor.dtype} pieces {shape[0] if dim == 1 else 1} "
        f"blocks {shape[dim] // block_count} shape {shape[dim + 1 :]} strides {stride[dim + 1 :]}"
    )


def block_dim(name: str, tensor: Any, block_count: int) -> int:
    """The dimension that counts blocks: the first whose size is the number of blocks, or a whole
    multiple of it (attention kernels with smaller blocks than the manager's)."""
    shape = tuple(tensor.shape)
    for dim in range(min(2, len(shape))):
        if shape[dim] == block_count:
            return dim
    for dim in range(min(2, len(shape))):
        if shape[dim] > block_count and shape[dim] % block_count == 0:
            return dim
    raise LayoutError(f"layer {name}: shape {shape} has no dimension of {block_count} blocks")


def _pieces_of(name: str, tensor: Any, block_count: int) -> list[Piece]:
    shape, stride = tuple(tensor.shape), tuple(tensor.stride())
    item = tensor.element_size()
    dim = block_dim(name, tensor, block_count)
    ratio = shape[dim] // block_count
    inner = _dense_items(shape[dim + 1 :], stride[dim + 1 :])
    if inner is None or (ratio > 1 and stride[dim] != inner):
        raise LayoutError(
            f"layer {name}: a block of shape {shape}, strides {stride} is not dense memory"
        )
    outer = range(shape[0]) if dim == 1 else range(1)
    return [
        Piece(
            layer=name,
            address=tensor.data_ptr() + i * (stride[0] if dim == 1 else 0) * item,
            step=stride[dim] * ratio * item,
            length=inner * ratio * item,
        )
        for i in outer
    ]


def _dense_items(shape: Sequence[int], stride: Sequence[int]) -> int | None:
    """Number of items if they fill memory without holes, in whatever order of the dimensions."""
    expected = 1
    for step, size in sorted(zip(stride, shape, strict=True)):
        if size == 1:
            continue
        if step != expected:
            return None
        expected *= size
    return expected
