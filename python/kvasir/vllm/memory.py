"""Block memory as the client takes it: lists of buffers, straight over the KV tensors where they
are host memory or where an adapter reaches them on a GPU, or a pinned copy where neither holds.

One thread uses one instance, with one client at a time: ``attach`` comes with each new one, and
registers with it what its adapter may move by itself."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import kvasir
from kvasir.vllm.layout import Layout, block_dim


def regions_of(layout: Layout) -> list[tuple[int, int]]:
    """Address and length of the memory that the pieces of all blocks lie in; what overlaps, as
    layers do that take turns in one tensor, is one region."""
    extents = sorted(
        (piece.address, piece.address + (layout.block_count - 1) * piece.step + piece.length)
        for piece in layout.pieces
    )
    regions = [list(extents[0])]
    for start, end in extents[1:]:
        if start < regions[-1][1]:
            regions[-1][1] = max(regions[-1][1], end)
        else:
            regions.append([start, end])
    return [(start, end - start) for start, end in regions]


def engine_fence(device: Any) -> Any:
    """An event behind everything that the engine's stream has been given so far."""
    import torch

    event = torch.Event(device=device)
    event.record()
    return event


def _register_all(client: Any, buffers: Sequence[Any], kind: str) -> str:
    """Why not all of the buffers are registered to travel as ``kind``, none of them then; empty:
    they are."""
    done: list[Any] = []
    reason = ""
    for buffer in buffers:
        try:
            if not client.register(buffer):
                reason = "no RDMA on this connection"
                break
            done.append(buffer)
            got = client.buffer_kind(buffer)
        except kvasir.Error as error:
            reason = str(error)
            break
        if got != kind:
            reason = f"they would travel as {got}"
            break
    if reason:
        for buffer in done:
            try:
                client.unregister(buffer)
            except kvasir.Error:
                break  # the client is no good any more, and its end undoes the rest
    return reason


class _Pieces:
    """The pieces of blocks as slices of views over the regions."""

    def __init__(self, layout: Layout, make_view: Callable[[int, int], Any]) -> None:
        self.layout = layout
        self.regions = []
        self._views = []
        for address, length in regions_of(layout):
            view = make_view(address, length)
            self.regions.append(view)
            for piece in layout.pieces:
                if address <= piece.address < address + length:
                    self._views.append((piece, view, piece.address - address))
        order = {piece: i for i, piece in enumerate(layout.pieces)}
        self._views.sort(key=lambda entry: order[entry[0]])

    def block(self, block: int) -> list[Any]:
        """The pieces of one block, in the order of a value; IndexError for no such block."""
        if not 0 <= block < self.layout.block_count:
            raise IndexError(f"block {block} of {self.layout.block_count}")
        return [
            view[start + block * piece.step : start + block * piece.step + piece.length]
            for piece, view, start in self._views
        ]


class HostMemory:
    """The KV tensors themselves: nothing is copied on our side. The tensors must outlive it."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._pieces = _Pieces(layout, _view_of_host)

    def attach(self, client: Any) -> None:
        """With RDMA the server moves the bytes; without, nothing changes."""
        _register_all(client, self._pieces.regions, "host")

    def block(self, block: int) -> list[memoryview]:
        """The pieces of one block, in the order of a value; IndexError for no such block."""
        return self._pieces.block(block)

    def fence(self) -> Any:
        """What has to be done before blocks written by now may be read: nothing."""
        return None

    def for_save(self, blocks: Sequence[int], fence: Any) -> list[Any]:
        return [self.block(block) for block in blocks]

    def for_load(self, blocks: Sequence[int], fence: Any = None) -> list[Any]:
        return [self.block(block) for block in blocks]

    def loaded(self, blocks: Sequence[int], good: Sequence[bool]) -> None:
        """Nothing: the bytes are where they belong."""


def _view_of_host(address: int, length: int) -> memoryview:
    return memoryview((ctypes.c_char * length).from_address(address)).cast("B")


class DeviceMemory:
    """The KV tensors on a GPU themselves, as long as the client's adapter reaches them; else what
    ``make_staged`` makes. With checksums stores go through that copy, too: a checksum is made of
    what a CPU can read."""

    def __init__(
        self,
        layout: Layout,
        device: Any,
        make_staged: Callable[[], Any],
        checksum: bool,
        logger: logging.Logger,
    ) -> None:
        self.layout = layout
        self._device = device
        self._make_staged = make_staged
        self._staged: Any = None
        self._checksum = checksum
        self._logger = logger
        self._pieces = _Pieces(
            layout, lambda address, length: kvasir.DeviceBuffer(address, length, str(device))
        )
        self._client: Any = None
        self._reason = "there is no connection yet"
        self._loads_staged = False

    def attach(self, client: Any) -> None:
        """Registers the tensors with the client. Where its adapter does not reach all of them the
        copy is used, which then goes by RDMA if there is any; the log says why, once."""
        reason = _register_all(client, self._pieces.regions, "device")
        if reason != self._reason:
            if reason:
                self._logger.info("kvasir: GPU blocks go through a pinned copy: %s", reason)
            else:
                self._logger.info("kvasir: an adapter moves blocks from and to %s", self._device)
        self._reason = reason
        self._client = client
        if self._staged is not None:
            self._staged.attach(client)

    def _spare(self) -> Any:
        if self._staged is None:
            self._staged = self._make_staged()
            if self._client is not None:
                self._staged.attach(self._client)
        return self._staged

    def fence(self) -> Any:
        return engine_fence(self._device)

    def for_save(self, blocks: Sequence[int], fence: Any) -> list[Any]:
        if self._reason or self._checksum:
            rows: list[Any] = self._spare().for_save(blocks, fence)
            return rows
        if fence is not None:
            fence.synchronize()
        return [self._pieces.block(block) for block in blocks]

    def for_load(self, blocks: Sequence[int], fence: Any = None) -> list[Any]:
        self._loads_staged = bool(self._reason)
        if self._loads_staged:
            rows: list[Any] = self._spare().for_load(blocks, fence)
            return rows
        if fence is not None:
            fence.synchronize()
        return [self._pieces.block(block) for block in blocks]

    def loaded(self, blocks: Sequence[int], good: Sequence[bool]) -> None:
        if self._loads_staged:
            self._spare().loaded(blocks, good)


class StagedMemory:
    """A pinned host copy between the KV tensors and the store: for tensors on a GPU. With CPU
    tensors it works as well (without pinning and streams), which is how it is tested; on a GPU it
    copies on a stream of its own and waits for it."""

    def __init__(self, layout: Layout, kv_caches: Mapping[str, Any]) -> None:
        import torch

        self._torch = torch
        self.layout = layout
        self._tensors = list(kv_caches.values())
        self._device = self._tensors[0].device
        self._gpu = self._device.type != "cpu"
        self._stream: Any = torch.Stream(device=self._device) if self._gpu else None
        self._stage: Any = None
        self._client: Any = None
        self._fence: Any = None
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

    def attach(self, client: Any) -> None:
        """The copy is registered with the client, so that it goes by RDMA where there is any."""
        self._client = client
        if self._stage is not None:
            _register_all(client, [self._stage], "host")

    def _room(self, count: int) -> Any:
        if self._stage is None or self._stage.shape[0] < count:
            if self._stage is not None and self._client is not None:
                self._client.unregister(self._stage)
            self._stage = self._torch.empty(
                (count, self.layout.block_bytes),
                dtype=self._torch.uint8,
                pin_memory=self._gpu,
            )
            if self._client is not None:
                _register_all(self._client, [self._stage], "host")
        return self._stage[:count]

    def fence(self) -> Any:
        return engine_fence(self._device) if self._gpu else None

    def for_save(self, blocks: Sequence[int], fence: Any) -> list[Any]:
        stage = self._room(len(blocks))
        with self._on_stream():
            if fence is not None:
                self._stream.wait_event(fence)
            self._each_piece(stage, blocks, save=True)
        self._wait()
        return list(stage.numpy())

    def for_load(self, blocks: Sequence[int], fence: Any = None) -> list[Any]:
        self._fence = fence
        return list(self._room(len(blocks)).numpy())

    def loaded(self, blocks: Sequence[int], good: Sequence[bool]) -> None:
        """Moves what arrived to the KV tensors and waits until it is there."""
        rows = [i for i, ok in enumerate(good) if ok]
        if not rows:
            return
        stage = self._stage[: len(blocks)]
        chosen = stage if len(rows) == len(blocks) else stage[rows]
        with self._on_stream():
            if self._fence is not None:
                self._stream.wait_event(self._fence)
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
