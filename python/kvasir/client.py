"""The client: store, find and fetch values in a Kvasir server."""

from __future__ import annotations

import ctypes
import time
import weakref
from array import array
from collections.abc import Callable, Sequence
from ctypes import c_size_t, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from . import errors
from ._buffers import Items, Key, Pins, bytes_address, key_bytes, new_bytes, status_of
from ._handle import Handle, milliseconds
from ._native import (
    BUFFER_KINDS,
    CALL_GET,
    CALL_PUT,
    COUNTER_NAMES,
    DEVICE_KINDS,
    ITEM_LENGTH,
    ITEM_STATUS,
    ITEM_WORDS,
    PATH_NAMES,
    CountersRecord,
    PutOptions,
    ServerInfoRecord,
    StatRecord,
    SubmitOptions,
    library,
)
from .errors import Status
from .events import Events
from .request import Flight, Request, poll_locked
from .view import View

if TYPE_CHECKING:
    from types import TracebackType

ValueClass = Literal["full", "window", "state", "encoder"]

_VALUE_CLASSES: tuple[ValueClass, ...] = ("full", "window", "state", "encoder")
_RDMA_MODES = ("server", "client")  # in the order of enum kvasir_rdma_mode
_OK, _EXISTS, _NOT_FOUND, _TOO_SMALL = 0, -2, -1, -5
_PRESENCE = (_OK, _NOT_FOUND)
_LOW_WORD = 0xFFFFFFFF
_NOT_FOUND_WORD = _NOT_FOUND & _LOW_WORD
# A first guess at the length of a value for get(); what came last is the guess from then on.
_GUESS_BYTES = 64 << 10

_exists = library.exists
_get_batch = library.get_batch


@dataclass(frozen=True)
class Stat:
    """What the server knows of a value. Durations in seconds, sizes in bytes."""

    length_bytes: int
    """Length of the value."""
    stored_bytes: int
    """Length as stored, after the codec."""
    checksum: int | None
    """XXH3-64 of the value, None when it was stored without one."""
    value_class: ValueClass
    ttl: float | None
    """Left to live; None: never expires."""
    pin: float
    """Left of the longest pin; 0: none."""
    hit_count: int
    generation: int
    """Grows at every overwrite of the key."""
    lease_count: int
    codec: str
    tier: str


@dataclass(frozen=True)
class ServerInfo:
    """What the server said of itself on connecting."""

    version: str
    node_id: str
    reactor_count: int
    value_bytes_max: int
    key_bytes_max: int
    shm: bool
    """Whether this client uses shared memory."""
    rdma: bool
    """Whether this client uses RDMA for registered buffers."""


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _stat_of(record: StatRecord) -> Stat:
    return Stat(
        length_bytes=record.length_bytes,
        stored_bytes=record.stored_bytes,
        checksum=record.checksum if record.checksum_valid else None,
        value_class=_VALUE_CLASSES[record.value_class & 3],
        ttl=None if record.ttl_ms < 0 else record.ttl_ms / 1000,
        pin=record.pin_ms / 1000,
        hit_count=record.hit_count,
        generation=record.generation,
        lease_count=record.lease_count,
        codec=_text(record.codec),
        tier=_text(record.tier),
    )


def _item_error(word: int, length: int, key: bytes, sentence: str) -> errors.Error:
    status = status_of(word)
    message = f"key {key!r}" if len(key) <= 64 else f"key {key[:61]!r}..."
    if sentence:
        message = f"{sentence} ({message})"
    if status == _TOO_SMALL:
        message += f" takes a buffer of {length} bytes"
        return errors.from_status(status, message, length)
    return errors.from_status(status, message)


def _read(items: Items, found: Callable[[int], Any], absent: Any) -> list[Any]:
    """One result per item: found(length) for OK, absent for NOT_FOUND, else the error."""
    results = []
    words = items.words
    for index, (word, length) in enumerate(
        zip(words[ITEM_STATUS::ITEM_WORDS], words[ITEM_LENGTH::ITEM_WORDS])
    ):
        low = word & _LOW_WORD
        if low == 0:
            results.append(found(length))
        elif low == _NOT_FOUND_WORD:
            results.append(absent)
        else:
            results.append(_item_error(word, length, items.keys[index], items.sentence))
    return results


def _read_lengths(items: Items) -> list[Any]:
    statuses = items.words[ITEM_STATUS::ITEM_WORDS]
    lengths = items.words[ITEM_LENGTH::ITEM_WORDS].tolist()
    # All hits, by far the most common answer of a batch that follows a match.
    if not any(statuses):
        return lengths
    return _read(items, int, None)


def _read_presence(items: Items) -> list[Any]:
    if not any(items.words[ITEM_STATUS::ITEM_WORDS]):
        return [True] * items.count
    return _read(items, lambda _length: True, False)


def _read_puts(items: Items) -> list[Any]:
    results = _read_presence(items)
    for index, result in enumerate(results):
        if isinstance(result, errors.Error) and result.status == _EXISTS:
            results[index] = False
        elif result is False:
            # NOT_FOUND makes no sense as the answer to a put: an error like any other.
            results[index] = _item_error(_NOT_FOUND_WORD, 0, items.keys[index], "")
    return results


def _put_options(
    only_if_absent: bool,
    ttl: float | None,
    checksum: bool,
    value_class: ValueClass,
    parent: Key | None,
    chain: bool,
    cost: int,
) -> PutOptions | None:
    plain = not (only_if_absent or checksum or chain or ttl is not None or parent is not None)
    if plain and value_class == "full" and cost == 0:
        return None
    if not 0 <= cost < 1 << 64:
        raise ValueError(f"cost is a whole number from 0 (nothing is said) on, not {cost!r}")
    if value_class not in _VALUE_CLASSES:
        raise ValueError(f"value_class is one of {', '.join(_VALUE_CLASSES)}, not {value_class!r}")
    options = PutOptions(
        only_if_absent=only_if_absent,
        checksum=checksum,
        value_class=_VALUE_CLASSES.index(value_class),
        ttl_ms=0 if ttl is None else milliseconds(ttl),
        chain=chain,
        cost=cost,
    )
    if parent is not None:
        key = key_bytes(parent)
        options.parent, options.parent_length_bytes = key, len(key)
    return options


def _first(results: list[Any]) -> Any:
    result = results[0]
    if isinstance(result, errors.Error):
        raise result
    return result


class Client:
    """A connection to one Kvasir server (one socket per reactor of it).

    ``address`` is ``"unix:///path"`` or ``"tcp://host:port"``. ``timeout`` is the default deadline
    of a call, ``connect_timeout`` that of one attempt to connect, ``backoff`` the first and the
    longest wait before the next attempt, ``lease`` how long a view may be read: all in seconds.
    With ``shm`` values move through shared memory when server and client share a host, puts
    through ``staging_bytes`` of it per connection. With ``rdma`` puts from, and gets into, buffers
    that were given to :meth:`register` go by RDMA where the server offers it: ``rdma_module`` is
    the path of ``rdma.so`` (None: the one beside the library), ``rdma_device`` the devices, with
    commas between (None: each whose port is up), ``rdma_gid_index`` and ``rdma_mtu`` what it
    speaks from and how long a packet is at most (None: what fits). ``rdma_mode`` says who moves
    the bytes: ``"server"`` in one round trip, or ``"client"``, which takes a round trip more for a
    put and spares the server's cores; where the server lends no memory, it drives all the same.
    ``cuda_module`` is the path of ``cuda.so`` (None: the one beside the library),
    ``bounce_bytes`` the pinned host memory at most (None: 128 MiB) that payload of GPU memory goes
    through where no adapter reaches it.
    ``rdma_traffic_class`` is that of the client's own packets (RoCE v2): four times the DSCP, and 2
    where switches mark congestion; 0 leaves it to the device.

    Keys are bytes or str (UTF-8). Payloads are whatever has the buffer protocol in C order (bytes,
    bytearray, memoryview, numpy arrays of any shape), contiguous torch tensors, and lists of those:
    one value gathered from, or scattered over, several pieces. Memory of a CUDA device (torch, and
    whatever has ``__cuda_array_interface__`` or DLPack) must be given to :meth:`register` before.
    No stream is waited for: what writes an array must be done before it is put, and what uses it
    comes after the call that fills it.

    A client may be shared by threads: calls take turns, and the wait for the turn counts against
    the deadline. For calls at the same time use one client per thread. The interpreter lock is
    released while a call waits or moves data. A client does not survive a fork: in the child its
    calls raise :class:`ForkedClient`.

    Every call takes ``timeout`` in seconds (None: the client's default) and ends within it:
    ``Timeout`` or ``Closed`` when the server is stopped, dead or gone. One-key calls raise what
    went wrong. Batch calls raise only what is wrong with the arguments or with the client itself
    (closed, forked, busy past the deadline, all before anything was sent); what happened to a key
    is in its place in the returned list, an :class:`Error` (not raised) when it failed.
    """

    def __init__(
        self,
        address: str = "tcp://127.0.0.1:6379",
        *,
        user: str | None = None,
        password: str | None = None,
        name: str | None = None,
        timeout: float = 5.0,
        connect_timeout: float = 1.0,
        backoff: tuple[float, float] = (0.05, 2.0),
        shm: bool = True,
        staging_bytes: int = 32 << 20,
        lease: float = 30.0,
        rdma: bool = True,
        rdma_module: str | None = None,
        rdma_device: str | None = None,
        rdma_gid_index: int | None = None,
        rdma_mtu: int | None = None,
        rdma_mode: str = "server",
        cuda_module: str | None = None,
        bounce_bytes: int | None = None,
        rdma_traffic_class: int = 0,
    ) -> None:
        if rdma_mode not in _RDMA_MODES:
            raise ValueError(f"rdma_mode is one of {', '.join(_RDMA_MODES)}, not {rdma_mode!r}")
        if not 0 <= rdma_traffic_class <= 255:
            raise ValueError(f"rdma_traffic_class is 0 to 255, not {rdma_traffic_class}")
        options = library.new_options()
        options.address = address.encode()
        options.user = None if user is None else user.encode()
        options.password = None if password is None else password.encode()
        options.name = None if name is None else name.encode()
        options.timeout_ms = milliseconds(timeout)
        options.connect_timeout_ms = milliseconds(connect_timeout)
        options.backoff_min_ms, options.backoff_max_ms = map(milliseconds, backoff)
        options.shm = shm
        options.staging_bytes = staging_bytes
        options.lease_ms = milliseconds(lease)
        options.rdma = rdma
        options.rdma_module = None if rdma_module is None else rdma_module.encode()
        options.rdma_device = None if rdma_device is None else rdma_device.encode()
        options.rdma_gid_index = -1 if rdma_gid_index is None else rdma_gid_index
        options.rdma_mtu_bytes = 0 if rdma_mtu is None else rdma_mtu
        options.rdma_traffic_class = rdma_traffic_class
        options.rdma_mode = _RDMA_MODES.index(rdma_mode)
        options.cuda_module = None if cuda_module is None else cuda_module.encode()
        if bounce_bytes is not None:
            options.bounce_bytes = bounce_bytes
        sentence = ctypes.create_string_buffer(512)
        pointer = c_void_p()
        status = library.connect(
            ctypes.addressof(options), sentence, len(sentence), ctypes.byref(pointer)
        )
        if status != _OK:
            raise errors.from_status(status, _text(sentence.value))
        self.address = address
        self._guess = _GUESS_BYTES
        self._handle = Handle(pointer.value or 0, options.timeout_ms)
        self._finalizer = weakref.finalize(self, self._handle.close)

    def close(self) -> None:
        """Releases views, cancels requests in flight, closes the sockets. Again does no harm."""
        self._finalizer()

    @property
    def closed(self) -> bool:
        """Whether the client was closed."""
        return self._handle.closed

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<kvasir.Client {self.address}{', closed' if self.closed else ''}>"

    def _run(
        self, function: Callable[..., int], items: Items, timeout: float | None, *extra: Any
    ) -> None:
        """One batch call of the library; gives the payload memory back afterwards."""
        handle = self._handle
        devices = items.pins if items.pins is not None and items.pins.devices else None
        try:
            timeout_ms = handle.enter(timeout)
            try:
                if devices is not None:
                    handle.check_devices(devices)
                failed = function(handle.pointer, items.address, items.count, *extra, timeout_ms)
                if failed or (devices is not None and items.failed_on_device()):
                    items.sentence = handle.sentence()
            finally:
                handle.leave()
        finally:
            items.release()

    # ---- buffers for RDMA, and those of devices --------------------------------------------

    def register(self, buffer: Any) -> bool:
        """Lets the server read and write the buffer, so that puts from it and gets into it, or
        parts of it, go by RDMA. True: registered; False: this client has no RDMA, and calls take
        other paths.

        The buffer is anything writable with the buffer protocol in C order, or a contiguous torch
        tensor; it is held until :meth:`unregister` or :meth:`close`. The first call may take as
        long as ``connect_timeout``, and registering a second for each 10 GiB. Raises NoMemory (the
        sentence names the limit: memlock), Busy, TypeError.

        Memory of a CUDA device must be registered before any other call takes it, or a part of it.
        It then serves on every path, also where there is no RDMA: :meth:`buffer_kind` tells how.
        Raises Unsupported where the library cannot use it: no driver in this process, or no module
        ``cuda.so``.
        """
        handle = self._handle
        pins = Pins((buffer,), True)
        try:
            if pins.scattered:
                raise TypeError("a buffer to register is one piece of memory")
            place = (pins.bases[0], pins.sizes[0])
            handle.enter(None)
            try:
                status = library.register(handle.pointer, *place)
                if pins.devices:
                    self._check_registered(status, *place, pins.devices[0].where)
                if status == Status.OK:
                    handle.registered.setdefault(place, []).append(pins)
                    if pins.devices:
                        handle.look_at_devices()
                    return True
                if status != Status.UNSUPPORTED:
                    raise handle.failure(status)
            finally:
                handle.leave()
        except BaseException:
            pins.release()
            raise
        pins.release()
        return False

    def _check_registered(self, status: int, address: int, length: int, where: str) -> None:
        """Raises Unsupported where the library does not know the memory of a device as such."""
        handle = self._handle
        if status == Status.OK:
            if library.buffer(handle.pointer, address, length) in DEVICE_KINDS:
                return
            library.unregister(handle.pointer, address, length)
        elif status not in (Status.UNSUPPORTED, Status.IO):
            return
        raise errors.Unsupported(
            f"the memory of {where} cannot be used here (is its driver, libcuda.so.1, in this "
            f"process?): {handle.sentence() or 'the library takes it for memory of the host'}"
        )

    def buffer_kind(self, buffer: Any) -> str:
        """How the bytes of a registered buffer, or of a part of one, travel: ``"host"`` and
        ``"device"``, the adapter moves them; ``"staged"``, between a device and pinned host memory,
        and from there by whatever path there is; ``"none"``, it is not registered."""
        handle = self._handle
        pins = Pins((buffer,), False)
        try:
            if pins.scattered:
                raise TypeError("a registered buffer is one piece of memory")
            handle.enter(None)
            try:
                kind: int = library.buffer(handle.pointer, pins.bases[0], pins.sizes[0])
            finally:
                handle.leave()
        finally:
            pins.release()
        return BUFFER_KINDS[kind] if 0 <= kind < len(BUFFER_KINDS) else f"kind {kind}"

    def unregister(self, buffer: Any) -> bool:
        """Undoes one :meth:`register` of the same buffer. False: it was not registered. Raises
        Busy while a submitted request is in flight."""
        handle = self._handle
        pins = Pins((buffer,), True)
        try:
            place = (pins.bases[0], pins.sizes[0])
            handle.enter(None)
            try:
                status = library.unregister(handle.pointer, *place)
                if status == Status.OK:
                    held = handle.registered[place]
                    held.pop().release()
                    if not held:
                        del handle.registered[place]
                        handle.devices.discard(place)
                elif status != Status.NOT_FOUND:
                    raise handle.failure(status)
            finally:
                handle.leave()
        finally:
            pins.release()
        return bool(status == Status.OK)

    # ---- put -------------------------------------------------------------------------------

    def put(
        self,
        key: Key,
        data: Any,
        *,
        only_if_absent: bool = False,
        ttl: float | None = None,
        checksum: bool = False,
        value_class: ValueClass = "full",
        parent: Key | None = None,
        cost: int = 0,
        timeout: float | None = None,
    ) -> bool:
        """Stores a value. True: stored; False: the key existed and ``only_if_absent`` was given.

        ``ttl`` in seconds (None: never expires); ``checksum`` sends XXH3-64 of the data, which
        the server verifies and keeps; ``parent`` is the key of the block before this one; ``cost``
        is a whole number that says what computing the value again would take, in any unit that all
        who put share: for its length, what is dearer stays longer (0: nothing is said).
        Raises NoMemory, TooLarge, Corrupt, Denied, Timeout, Closed; TypeError or ValueError for
        data that gives no contiguous host memory.
        """
        return bool(
            _first(
                self.put_batch(
                    (key,),
                    (data,),
                    only_if_absent=only_if_absent,
                    ttl=ttl,
                    checksum=checksum,
                    value_class=value_class,
                    parent=parent,
                    cost=cost,
                    timeout=timeout,
                )
            )
        )

    def put_batch(
        self,
        keys: Sequence[Key],
        data: Sequence[Any],
        *,
        only_if_absent: bool = False,
        ttl: float | None = None,
        checksum: bool = False,
        value_class: ValueClass = "full",
        parent: Key | None = None,
        chain: bool = False,
        cost: int = 0,
        timeout: float | None = None,
    ) -> list[bool | errors.Error]:
        """Stores ``data[i]`` under ``keys[i]``; options as for :meth:`put`, for every value.

        With ``chain`` each key is the parent of the next one, and ``parent`` that of the first.
        Returns per key True (stored), False (existed) or the error.
        """
        options = _put_options(only_if_absent, ttl, checksum, value_class, parent, chain, cost)
        items = Items(keys, data)
        if items.count == 0:
            return []
        self._run(library.put_batch, items, timeout, options)
        return _read_puts(items)

    # ---- get -------------------------------------------------------------------------------

    def get(self, key: Key, *, timeout: float | None = None) -> bytes | None:
        """The value as bytes, None when it is absent.

        Raises Corrupt, Denied, Timeout, Closed. The length is guessed from the last value; a
        longer one costs a second round trip. Where the length is known use :meth:`get_into`.
        """
        plain = key_bytes(key)
        end = None if timeout is None else time.monotonic() + timeout
        words = array("Q", bytes(8 * ITEM_WORDS))
        address = words.buffer_info()[0]
        words[0], words[1] = bytes_address(plain), len(plain)
        capacity = self._guess
        sentence = ""
        handle = self._handle
        while True:
            data = new_bytes(capacity)
            words[4], words[5] = bytes_address(data), capacity
            timeout_ms = handle.enter(timeout)
            try:
                if _get_batch(handle.pointer, address, 1, timeout_ms):
                    sentence = handle.sentence()
            finally:
                handle.leave()
            status = status_of(words[ITEM_STATUS])
            length = words[ITEM_LENGTH]
            if status == _NOT_FOUND:
                return None
            if status != _TOO_SMALL:
                break
            if length <= capacity:
                raise _item_error(words[ITEM_STATUS], length, plain, sentence)
            capacity = length
            timeout = None if end is None else max(0.001, end - time.monotonic())
        if status != _OK:
            raise _item_error(words[ITEM_STATUS], length, plain, sentence)
        self._guess = max(length, _GUESS_BYTES)
        return data if length == capacity else data[:length]

    def get_into(self, key: Key, buffer: Any, *, timeout: float | None = None) -> int | None:
        """Writes the value to the start of ``buffer`` and returns its length in bytes, None when
        it is absent (the buffer is then untouched).

        Raises TooSmall (its ``length_bytes`` says what it takes), Corrupt, Denied, Timeout,
        Closed: the buffer's contents are undefined then. TypeError for read-only memory,
        ValueError for memory that is not contiguous, and for memory of a device that is not
        registered.
        """
        items = Items((key,), (buffer,), True)
        self._run(_get_batch, items, timeout)
        length: int | None = _first(_read_lengths(items))
        return length

    def get_into_batch(
        self, keys: Sequence[Key], buffers: Sequence[Any], *, timeout: float | None = None
    ) -> list[int | errors.Error | None]:
        """Fills ``buffers[i]`` with the value of ``keys[i]``. Returns per key the length in bytes,
        None (absent) or the error (as :meth:`get_into` would raise it)."""
        items = Items(keys, buffers, True)
        if items.count == 0:
            return []
        self._run(_get_batch, items, timeout)
        return _read_lengths(items)

    def get_view(self, key: Key, *, timeout: float | None = None) -> View | None:
        """A read-only look at the value where it lies, without a copy; None when it is absent.

        Needs the shared-memory path: raises Unsupported on others. Also Denied, Timeout, Closed,
        Busy. Release the view when done (``with client.get_view(key) as view``): its lease keeps
        the memory from being reused.
        """
        view: View | None = _first(self.get_view_batch((key,), timeout=timeout))
        return view

    def get_view_batch(
        self, keys: Sequence[Key], *, timeout: float | None = None
    ) -> list[View | errors.Error | None]:
        """Views of all keys. Returns per key a View, None (absent) or the error."""
        items = Items(keys)
        if items.count == 0:
            return []
        pointers = array("Q", bytes(8 * items.count))
        handle = self._handle
        timeout_ms = handle.enter(timeout)
        try:
            if library.get_view_batch(
                handle.pointer,
                items.address,
                items.count,
                pointers.buffer_info()[0],
                timeout_ms,
            ):
                items.sentence = handle.sentence()
            results = _read(items, int, None)
            for index, pointer in enumerate(pointers):
                if pointer and isinstance(results[index], int):
                    results[index] = View(self, handle, pointer)
        finally:
            handle.leave()
        return results

    # ---- what is there ---------------------------------------------------------------------

    def exists(self, key: Key, *, timeout: float | None = None) -> bool:
        """Whether the key is stored. Raises Denied, Timeout, Closed."""
        plain = key if type(key) is bytes else key_bytes(key)
        handle = self._handle
        timeout_ms = handle.enter(timeout)
        try:
            status = _exists(handle.pointer, plain, len(plain), timeout_ms)
            if status not in _PRESENCE:
                raise handle.failure(status)
        finally:
            handle.leave()
        return bool(status == _OK)

    def exists_batch(
        self, keys: Sequence[Key], *, timeout: float | None = None
    ) -> list[bool | errors.Error]:
        """Returns per key True, False or the error."""
        items = Items(keys)
        if items.count == 0:
            return []
        self._run(library.exists_batch, items, timeout)
        return _read_presence(items)

    def match(self, keys: Sequence[Key], pin: float = 0.0, *, timeout: float | None = None) -> int:
        """How many leading keys of a chain are stored, in one round trip. ``pin`` keeps what was
        found from eviction for that many seconds. Raises Denied, Timeout, Closed."""
        items = Items(keys)
        if items.count == 0:
            return 0
        matched = c_size_t()
        pin_ms = milliseconds(pin) if pin else 0
        handle = self._handle
        timeout_ms = handle.enter(timeout)
        try:
            status = library.match(
                handle.pointer,
                items.address,
                items.count,
                pin_ms,
                ctypes.byref(matched),
                timeout_ms,
            )
            if status != _OK:
                raise handle.failure(status)
        finally:
            handle.leave()
        return matched.value

    def delete(self, key: Key, *, timeout: float | None = None) -> bool:
        """Removes a value. True: it was there. Raises Denied, Timeout, Closed."""
        plain = key_bytes(key)
        handle = self._handle
        timeout_ms = handle.enter(timeout)
        try:
            status = library.delete(handle.pointer, plain, len(plain), timeout_ms)
            if status not in _PRESENCE:
                raise handle.failure(status)
        finally:
            handle.leave()
        return bool(status == _OK)

    def delete_batch(
        self, keys: Sequence[Key], *, timeout: float | None = None
    ) -> list[bool | errors.Error]:
        """Returns per key True (was there), False or the error."""
        items = Items(keys)
        if items.count == 0:
            return []
        self._run(library.delete_batch, items, timeout)
        return _read_presence(items)

    def stat(self, key: Key, *, timeout: float | None = None) -> Stat | None:
        """What the server knows of a value, None when it is absent. Raises Denied, Timeout,
        Closed."""
        plain = key_bytes(key)
        record = StatRecord()
        handle = self._handle
        timeout_ms = handle.enter(timeout)
        try:
            status = library.stat(
                handle.pointer, plain, len(plain), ctypes.byref(record), timeout_ms
            )
            if status not in _PRESENCE:
                raise handle.failure(status)
        finally:
            handle.leave()
        return _stat_of(record) if status == _OK else None

    def stat_batch(
        self, keys: Sequence[Key], *, timeout: float | None = None
    ) -> list[Stat | errors.Error | None]:
        """Returns per key its :class:`Stat`, None (absent) or the error."""
        items = Items(keys)
        if items.count == 0:
            return []
        records = (StatRecord * items.count)()
        self._run(library.stat_batch, items, timeout, ctypes.addressof(records))
        results = _read(items, int, None)
        return [
            _stat_of(record) if isinstance(result, int) else result
            for record, result in zip(records, results)
        ]

    # ---- submit ----------------------------------------------------------------------------

    def submit_get_into(
        self, keys: Sequence[Key], buffers: Sequence[Any], *, timeout: float | None = None
    ) -> Request:
        """Starts :meth:`get_into_batch` and returns at once; ``timeout`` is the request's
        deadline. Raises Busy when the client's bound on requests in flight is not left in time."""
        return self._submit(
            CALL_GET, Items(keys, buffers, True), _read_lengths, SubmitOptions(), timeout
        )

    def submit_put(
        self,
        keys: Sequence[Key],
        data: Sequence[Any],
        *,
        only_if_absent: bool = False,
        ttl: float | None = None,
        checksum: bool = False,
        value_class: ValueClass = "full",
        parent: Key | None = None,
        chain: bool = False,
        cost: int = 0,
        timeout: float | None = None,
    ) -> Request:
        """Starts :meth:`put_batch` and returns at once; the data must not change until the request
        is done. Raises Busy as :meth:`submit_get_into` does."""
        put = _put_options(only_if_absent, ttl, checksum, value_class, parent, chain, cost)
        options = SubmitOptions()
        if put is not None:
            options.put = ctypes.pointer(put)
        return self._submit(CALL_PUT, Items(keys, data), _read_puts, options, timeout)

    def _submit(
        self,
        call: int,
        items: Items,
        read: Callable[[Items], list[Any]],
        options: SubmitOptions,
        timeout: float | None,
    ) -> Request:
        handle = self._handle
        flight = Flight(handle, items, read)
        if items.count == 0:
            flight.done = True
            return Request(self, flight)
        allowed = handle.timeout_ms / 1000 if timeout is None else timeout
        end = time.monotonic() + allowed
        while True:
            timeout_ms = handle.enter(timeout)
            try:
                if items.pins is not None and items.pins.devices:
                    handle.check_devices(items.pins)
                options.timeout_ms = timeout_ms
                status = flight.submit_locked(call, options)
                if status == Status.PENDING:
                    return Request(self, flight)
                if status != Status.AGAIN:
                    raise handle.failure(status)
                if time.monotonic() >= end:
                    raise errors.Busy("too many requests are in flight on this client")
                poll_locked(handle, 10)
            finally:
                handle.leave()

    # ---- events ----------------------------------------------------------------------------

    def events(
        self,
        since: int | None = None,
        *,
        count_max: int = 1000,
        interval: float = 0.01,
        timeout: float | None = None,
    ) -> Events:
        """What happens to keys, one :class:`Event` after the other: for who mirrors what a store
        holds, as a router does that sends a prompt to where most of its prefix is.

        >>> held = {}
        >>> events = client.events()    # then learn what is there already, then:
        >>> while True:
        ...     try:
        ...         for event in events:
        ...             if event.kind == "sealed":
        ...                 held[event.key] = event.shard
        ...             elif event.kind == "flushed":
        ...                 held = {k: s for k, s in held.items() if s != event.shard}
        ...             else:
        ...                 held.pop(event.key, None)
        ...     except kvasir.Overrun:
        ...         held.clear()        # some were missed: learn anew what is there

        ``since`` None: from now on; 0: with all that the server still has; else the ``number`` of
        an event, or of a subscription, behind which to go on. An iterator asks for up to
        ``count_max`` events (10000 at most) every ``interval`` seconds; ``poll`` asks at once. Each
        time it takes its turn on this client, with ``timeout`` as the deadline.

        Events of keys that the user may not read are left out. The server keeps the latest (its
        option ``events-backlog``), from when somebody first asks: who falls behind, or comes back
        to a server that was started anew, gets :class:`Overrun`. Raises Denied, Timeout, Closed.
        """
        return Events(self._handle, since, count_max, interval, timeout)

    # ---- facts -----------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The path that served the last call that moved a payload: ``"shm"``, ``"rdma"``,
        ``"rdma-client"``, ``"unix"``, ``"tcp"``, or ``"none"`` before the first."""
        handle = self._handle
        handle.enter(None)
        try:
            number: int = library.path(handle.pointer)
        finally:
            handle.leave()
        return PATH_NAMES[number] if 0 <= number < len(PATH_NAMES) else f"path {number}"

    def counters(self) -> dict[str, int]:
        """Counts since connecting: ``calls``, ``round_trips``, ``get_hits``, ``shm_bytes`` and so
        on, as in ``struct kvasir_counters``."""
        record = CountersRecord()
        handle = self._handle
        handle.enter(None)
        try:
            library.counters(handle.pointer, ctypes.byref(record))
        finally:
            handle.leave()
        return {name: getattr(record, name) for name in COUNTER_NAMES}

    def server_info(self) -> ServerInfo:
        """What the server said of itself on connecting; asks nothing over the wire."""
        record = ServerInfoRecord()
        handle = self._handle
        handle.enter(None)
        try:
            library.server_info(handle.pointer, ctypes.byref(record))
        finally:
            handle.leave()
        return ServerInfo(
            version=_text(record.version),
            node_id=_text(record.node_id),
            reactor_count=record.reactor_count,
            value_bytes_max=record.value_bytes_max,
            key_bytes_max=record.key_bytes_max,
            shm=record.shm,
            rdma=record.rdma,
        )
