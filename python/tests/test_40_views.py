"""Views: values read where they lie, under a lease."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable

import pytest
from conftest import connect

import kvasir
from kvasir.server import Server

numpy = pytest.importorskip("numpy")

KeyMaker = Callable[[str], bytes]


def _leases(client: kvasir.Client, key: bytes) -> int:
    stat = client.stat(key)
    assert stat is not None
    return stat.lease_count


def _leases_become(client: kvasir.Client, key: bytes, expected: int) -> bool:
    """Releasing does not wait for the server, so its count follows a little later."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        if _leases(client, key) == expected:
            return True
    return False


@pytest.mark.parametrize("size", [0, 1, 100, 4096, 65536, 1 << 20, (2 << 20) + 5, 9 << 20])
def test_views_show_the_value(shm_client: kvasir.Client, key: KeyMaker, size: int) -> None:
    data = os.urandom(size)
    shm_client.put(key("a"), data)
    with shm_client.get_view(key("a")) as view:  # type: ignore[union-attr]
        assert len(view) == size
        assert b"".join(view.segments) == data
        assert view.tobytes() == data
        assert view.numpy().tobytes() == data
        target = bytearray(size + 3)
        assert view.copy_into(target) == size
        assert target == data + bytes(3)
        assert not view.expired
        assert all(piece.readonly and piece.format == "B" for piece in view.segments)
    assert shm_client.path == "shm"


def test_views_absent_key_is_none(shm_client: kvasir.Client, key: KeyMaker) -> None:
    assert shm_client.get_view(key("none")) is None


def test_views_hold_a_lease_until_released(shm_client: kvasir.Client, key: KeyMaker) -> None:
    shm_client.put(key("a"), bytes(100_000))
    view = shm_client.get_view(key("a"))
    assert view is not None
    assert _leases(shm_client, key("a")) == 1
    view.release()
    view.release()
    assert _leases_become(shm_client, key("a"), 0)


def test_views_collected_as_garbage_end_their_lease(
    shm_client: kvasir.Client, key: KeyMaker
) -> None:
    shm_client.put(key("a"), bytes(100_000))
    view = shm_client.get_view(key("a"))
    assert _leases(shm_client, key("a")) == 1
    del view
    gc.collect()
    assert _leases_become(shm_client, key("a"), 0)


def test_views_raise_after_release(shm_client: kvasir.Client, key: KeyMaker) -> None:
    shm_client.put(key("a"), bytes(1000))
    view = shm_client.get_view(key("a"))
    assert view is not None
    whole = view.memoryview()
    view.release()
    assert view.released
    assert len(view) == 1000
    for use in (
        lambda: whole[0],
        lambda: view.segments,
        view.memoryview,
        view.numpy,
        view.tobytes,
        lambda: view.copy_into(bytearray(1000)),
    ):
        with pytest.raises(ValueError, match="released"):
            use()


def test_views_cannot_be_written(shm_client: kvasir.Client, key: KeyMaker) -> None:
    shm_client.put(key("a"), bytes(1000))
    with shm_client.get_view(key("a")) as view:  # type: ignore[union-attr]
        with pytest.raises(TypeError):
            view.memoryview()[0] = 1
        with pytest.raises(ValueError, match="read-only"):
            view.numpy("uint8")[0] = 1
        with pytest.raises(TypeError, match="read-only"):
            shm_client.get_into(key("a"), view.memoryview())


def test_views_give_arrays_of_any_type(shm_client: kvasir.Client, key: KeyMaker) -> None:
    stored = numpy.arange(1000, dtype="float32")  # one granule: always one piece
    shm_client.put(key("a"), stored)
    with shm_client.get_view(key("a")) as view:  # type: ignore[union-attr]
        array = view.numpy("float32", copy=False)
        assert (array == stored).all()
        assert not array.flags.owndata
        copied = view.numpy("float32", copy=True)
        assert copied.flags.writeable
        with pytest.raises(ValueError):
            view.numpy("S7", copy=False)
        del array
    assert (copied == stored).all()


def test_views_in_several_pieces_say_so(shm_client: kvasir.Client, key: KeyMaker) -> None:
    # Pages are handed out in any order; overwriting neighbours makes gaps between them.
    data = os.urandom(8 << 20)
    for name in range(3):
        shm_client.put(key(str(name)), data)
        shm_client.put(key(f"small {name}"), bytes(2 << 20))
    shm_client.delete_batch([key(f"small {name}") for name in range(3)])
    shm_client.put(key("a"), data + b"tail")
    with shm_client.get_view(key("a")) as view:  # type: ignore[union-attr]
        if len(view.segments) > 1:
            with pytest.raises(ValueError, match="pieces"):
                view.memoryview()
            with pytest.raises(ValueError, match="pieces"):
                view.numpy(copy=False)
        assert view.numpy().tobytes() == data + b"tail"
    shm_client.delete_batch([key("0"), key("1"), key("2"), key("a")])


def test_views_arrays_keep_the_lease_past_release(shm_client: kvasir.Client, key: KeyMaker) -> None:
    stored = numpy.arange(500, dtype="int64")  # one granule: always one piece
    shm_client.put(key("a"), stored)
    with shm_client.get_view(key("a")) as view:  # type: ignore[union-attr]
        array = view.numpy("int64")
        piece = view.memoryview()[8:16]
    assert _leases(shm_client, key("a")) == 1
    # Overwritten and gone for others, the bytes stay as they are for who holds them.
    shm_client.put(key("a"), bytes(4000))
    assert (array == stored).all()
    assert piece == b"\x01" + bytes(7)
    del array
    assert piece == b"\x01" + bytes(7)


def test_views_outlive_the_client_only_in_arrays(
    shared_server: Server, shm_client: kvasir.Client, key: KeyMaker
) -> None:
    stored = numpy.arange(500, dtype="int64")  # one granule: always one piece
    shm_client.put(key("a"), stored)
    other = connect(shared_server, "shm")
    view = other.get_view(key("a"))
    kept = other.get_view(key("a"))
    assert view is not None
    assert kept is not None
    array = kept.numpy("int64")
    other.close()
    assert view.released
    with pytest.raises(ValueError, match="released"):
        view.memoryview()
    assert (array == stored).all()
    del array
    assert _leases_become(shm_client, key("a"), 0)


def test_views_of_a_batch(shm_client: kvasir.Client, key: KeyMaker) -> None:
    keys = [key(str(index)) for index in range(20)]
    data = [os.urandom(100 + 5000 * index) for index in range(20)]
    shm_client.put_batch(keys, data)
    shm_client.delete(keys[7])
    views = shm_client.get_view_batch(keys)
    assert views[7] is None
    for index, view in enumerate(views):
        if index != 7:
            assert isinstance(view, kvasir.View)
            assert view.tobytes() == data[index]
    del view, views
    gc.collect()
    assert _leases_become(shm_client, keys[3], 0)


def test_views_need_shared_memory(shared_server: Server, key: KeyMaker) -> None:
    for path in ("tcp", "unix"):
        with connect(shared_server, path) as client:
            client.put(key("a"), b"1")
            with pytest.raises(kvasir.Unsupported):
                client.get_view(key("a"))
            assert client.get(key("a")) == b"1"


def test_views_lease_has_the_length_asked_for(shared_server: Server, key: KeyMaker) -> None:
    with connect(shared_server, "shm", lease=2.0) as client:
        client.put(key("a"), bytes(1000))
        with client.get_view(key("a")) as view:  # type: ignore[union-attr]
            assert 0 < view.deadline - time.monotonic() <= 2.0
