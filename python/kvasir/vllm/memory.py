"""Block memory as the client takes it: lists of buffers, straight over the KV tensors where they
are host memory, or a pinned copy where they are not."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

from kvasir.vllm.layout import Layout, block_dim


class HostMemory:
    """The KV tensors themselves: nothing is copied on our side. The tensors must outlive it."""

    staged = False

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._views = []
        for piece in layout.pieces:
            extent = (layout.block_count - 1) * piece.step + piece.length
            raw = (ctypes.c_char * extent).from_address(piece.address)
            self._views.append((memoryview(raw).cast("B"), piece.step, piece.length))

    def block(self, block: int) -> list[memoryview]:
        """The pieces of one block, in the order of a value; IndexError for no such block."""
        if not 0 <= block < self.layout.block_count:
            raise IndexError(f"block {block} of {self.layout.block_count}")
        return [view[block * step : block * step + length] for view, step, length in self._views]

    def fence(self) -> Any:
        """What has to be done before blocks written by now may be read: nothing."""
        return None

    def for_save(self, blocks: Sequence[int], fence: Any) -> list[Any]:
        return [self.block(block) for block in blocks]

    def for_load(self, blocks: Sequence[int]) -> list[Any]:
        return [self.block(block) for block in blocks]

    def loaded(self, blocks: Sequence[int], good: Sequence[bool]) -> None:
        """Nothing: the bytes are where they belong."""


class StagedMemory:
    """A pinned host copy between the KV tensors and the store: for tensors on a GPU. One thread
    uses one instance. With CPU tensors it works as well (without pinning and streams), which is
    how it is tested; on a GPU it copies on a stream of its own and waits for it."""

    staged = True

    def __init__(self, layout: Layout, kv_caches: Mapping[str, Any]) -> None:
        import torch

        self._torch = torch
        self.layout = layout
        self._tensors = list(kv_caches.values())
        self._device = self._tensors[0].device
        self._gpu = self._device.type != "cpu"
        self._stream: Any = torch.Stream(device=self._device) if self._gpu else None
        self._stage: Any = None
        self._flat = [self._blocks_of(tensor) for tensor in self._tensors]

    def _blocks_of(self, tensor: Any) -> list[Any]:
        """Byte views, one per piece, of shape (blocks, bytes of the piece)."""
        torch, count = self._torch, self.layout.block_count
        storage = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(
            tensor.untyped_storage()
        )
        start = tensor.data_ptr() - tensor.untyped_storage().data_ptr()
        item = tensor.element_size()
        dim = block_dim("", tensor, count)
        outer = tensor.shape[0] if dim == 1 else 1
        inner = item * tensor.shape[dim] // count
        for size in tensor.shape[dim + 1 :]:
            inner *= size
        step = tensor.stride(dim) * item * (tensor.shape[dim] // count)
        return [
            storage.as_strided(
                (count, inner), (step, 1), start + i * (tensor.stride(0) * item if dim else 0)
            )
            for i in range(outer)
        ]

    def _room(self, count: int) -> Any:
        if self._stage is None or self._stage.shape[0] < count:
            self._stage = self._torch.empty(
                (count, self.layout.block_bytes),
                dtype=self._torch.uint8,
                pin_memory=self._gpu,
            )
        return self._stage[:count]

    def fence(self) -> Any:
        """An event behind everything that the engine's stream has been given so far."""
        if not self._gpu:
            return None
        event = self._torch.Event(device=self._device)
        event.record()
        return event

    def for_save(self, blocks: Sequence[int], fence: Any) -> list[Any]:
        stage = self._room(len(blocks))
        with self._on_stream():
            if fence is not None:
                self._stream.wait_event(fence)
            self._each_piece(stage, blocks, save=True)
        self._wait()
        return list(stage.numpy())

    def for_load(self, blocks: Sequence[int]) -> list[Any]:
        return list(self._room(len(blocks)).numpy())

    def loaded(self, blocks: Sequence[int], good: Sequence[bool]) -> None:
        """Moves what arrived to the KV tensors and waits until it is there."""
        rows = [i for i, ok in enumerate(good) if ok]
        if not rows:
            return
        stage = self._stage[: len(blocks)]
        chosen = stage if len(rows) == len(blocks) else stage[rows]
        with self._on_stream():
            self._each_piece(chosen, [blocks[i] for i in rows], save=False)
        self._wait()

    def _each_piece(self, stage: Any, blocks: Sequence[int], save: bool) -> None:
        index = self._torch.tensor(list(blocks), device=self._device)
        offset = 0
        for pieces in self._flat:
            for piece in pieces:
                part = stage[:, offset : offset + piece.shape[1]]
                offset += piece.shape[1]
                if save:
                    part.copy_(piece.index_select(0, index), non_blocking=self._gpu)
                else:
                    piece.index_copy_(0, index, part.to(self._device, non_blocking=self._gpu))

    def _on_stream(self) -> Any:
        from contextlib import nullcontext

        return nullcontext() if self._stream is None else self._stream

    def _wait(self) -> None:
        if self._stream is not None:
            self._stream.synchronize()
