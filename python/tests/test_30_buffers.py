"""Every kind of memory that can be stored from and received into, and clear refusals of others."""

from __future__ import annotations

import array
import mmap
import sys
from collections.abc import Callable
from typing import Any

import pytest

import kvasir

numpy = pytest.importorskip("numpy")

KeyMaker = Callable[[str], bytes]


@pytest.mark.parametrize(
    "data",
    [
        b"0123456789abcdef",
        bytearray(b"0123456789abcdef"),
        memoryview(b"0123456789abcdef"),
        memoryview(bytearray(b"0123456789abcdef")).cast("B", (4, 4)),
        memoryview(b"__0123456789abcdef__")[2:-2],
        array.array("B", b"0123456789abcdef"),
        numpy.frombuffer(b"0123456789abcdef", dtype="uint8"),
        numpy.frombuffer(b"0123456789abcdef", dtype="float16").reshape(2, 4),
        numpy.frombuffer(b"0123456789abcdef", dtype="datetime64[s]"),
        [b"0123", bytearray(b"4567"), memoryview(b"89ab"), numpy.frombuffer(b"cdef", "uint32")],
        (b"", b"0123456789abcdef", b""),
    ],
    ids=lambda data: type(data).__name__,
)
def test_buffers_of_each_kind_are_stored(client: kvasir.Client, key: KeyMaker, data: Any) -> None:
    assert client.put(key("a"), data) is True
    assert client.get(key("a")) == b"0123456789abcdef"


@pytest.mark.parametrize(
    "buffer",
    [
        bytearray(16),
        memoryview(bytearray(16)),
        memoryview(bytearray(16)).cast("H", (2, 4)),
        array.array("d", [0.0, 0.0]),
        numpy.zeros((2, 4), "float16"),
        numpy.zeros(2, "datetime64[s]"),
        mmap.mmap(-1, 16),
    ],
    ids=lambda buffer: type(buffer).__name__,
)
def test_buffers_of_each_kind_are_filled(client: kvasir.Client, key: KeyMaker, buffer: Any) -> None:
    client.put(key("a"), b"0123456789abcdef")
    assert client.get_into(key("a"), buffer) == 16
    filled = (
        buffer[:]
        if isinstance(buffer, mmap.mmap)
        else buffer.tobytes()
        if hasattr(buffer, "tobytes")
        else bytes(buffer)
    )
    assert filled == b"0123456789abcdef"


def test_buffers_scattered_pieces_are_filled_in_order(client: kvasir.Client, key: KeyMaker) -> None:
    whole = bytes(range(256)) * 1000
    client.put(key("a"), whole)
    pieces = [bytearray(1), numpy.zeros(100_000, "uint8"), bytearray(155_999), bytearray(3)]
    assert client.get_into(key("a"), pieces) == 256_000
    assert b"".join(bytes(piece) for piece in pieces) == whole + bytes(3)


def test_buffers_rows_of_a_matrix_are_one_value(client: kvasir.Client, key: KeyMaker) -> None:
    matrix = numpy.arange(64, dtype="int32").reshape(8, 8)
    client.put(key("a"), list(matrix[:, 2:6]))
    target = numpy.full((8, 8), -1, dtype="int32")
    assert client.get_into(key("a"), list(target[:, 2:6])) == 8 * 16
    assert (target[:, 2:6] == matrix[:, 2:6]).all()
    assert (target[:, :2] == -1).all()


def test_buffers_mixed_kinds_go_into_one_batch(client: kvasir.Client, key: KeyMaker) -> None:
    keys = [key(str(index)) for index in range(4)]
    data = [b"0123", numpy.frombuffer(b"4567", "uint8"), [b"89", b"ab"], bytearray(b"cdef")]
    assert client.put_batch(keys, data) == [True] * 4
    buffers = [bytearray(4), numpy.zeros(4, "uint8"), [bytearray(2), bytearray(2)], bytearray(0)]
    results = client.get_into_batch(keys, buffers)
    assert results[:3] == [4, 4, 4]
    assert isinstance(results[3], kvasir.TooSmall)
    assert bytes(buffers[0] + buffers[1].tobytes() + buffers[2][0] + buffers[2][1]) == (
        b"0123456789ab"
    )


REFUSED_FOR_RECEIVING = [
    (b"read only", TypeError, "read-only"),
    (memoryview(b"read only"), TypeError, "read-only"),
    (numpy.frombuffer(b"read only", "uint8"), TypeError, "read-only"),
    (numpy.zeros((4, 4))[:, ::2], ValueError, "not contiguous"),
    (numpy.asfortranarray(numpy.zeros((4, 4))), ValueError, "not contiguous"),
    (memoryview(bytearray(8))[::2], ValueError, "not contiguous"),
    ("text", TypeError, "not str"),
    (5, TypeError, "not int"),
    (None, TypeError, "not NoneType"),
    ([bytearray(1), [bytearray(1)]], TypeError, "may not be lists"),
    ([bytearray(1), b"2"], TypeError, "read-only"),
]


@pytest.mark.parametrize(("buffer", "error", "text"), REFUSED_FOR_RECEIVING)
def test_buffers_that_cannot_be_filled_are_refused_clearly(
    shm_client: kvasir.Client, key: KeyMaker, buffer: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        shm_client.get_into(key("a"), buffer)
    with pytest.raises(error, match=text):
        shm_client.submit_get_into([key("a"), key("b")], [bytearray(1), buffer])


def test_buffers_on_a_gpu_are_refused_by_default(shm_client: kvasir.Client, key: KeyMaker) -> None:
    class OnGpu:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return {"shape": (1,), "typestr": "|u1", "data": (0, False)}

    with pytest.raises(ValueError, match=r"not registered.*or copy it to the host"):
        shm_client.put(key("a"), OnGpu())


def test_buffers_are_let_go_after_the_call(shm_client: kvasir.Client, key: KeyMaker) -> None:
    data = bytearray(b"0123")
    odd = array.array("B", b"4567")
    shm_client.put(key("a"), data)
    shm_client.put(key("a"), [data, odd])
    shm_client.get_into(key("a"), [data, odd])
    with pytest.raises(TypeError):
        shm_client.put_batch([b"a", b"b", b"c"], [data, odd, 5])
    with pytest.raises(ValueError, match="payloads"):
        shm_client.put_batch([b"a"], [data, odd])
    # Memory that is still lent out cannot be resized.
    data.append(0)
    odd.append(0)


def test_buffers_torch_tensors_work(client: kvasir.Client, key: KeyMaker) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(64, dtype=torch.float32).to(torch.bfloat16).reshape(8, 8)
    assert client.put(key("a"), tensor) is True
    target = torch.zeros(8, 8, dtype=torch.bfloat16)
    assert client.get_into(key("a"), target) == 128
    assert torch.equal(target, tensor)
    pieces = [torch.zeros(4, 8, dtype=torch.bfloat16) for _ in range(2)]
    assert client.get_into(key("a"), pieces) == 128
    assert torch.equal(torch.cat(pieces), tensor)
    with pytest.raises(ValueError, match="contiguous"):
        client.put(key("a"), tensor.T)
    with pytest.raises(TypeError, match="meta"):
        client.put(key("a"), torch.zeros(4, device="meta"))


def test_buffers_torch_is_not_imported() -> None:
    import subprocess

    code = "import kvasir, sys; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
