"""One thread's way to the store: connects by itself, keeps to deadlines, never raises anything but
StoreFailure, and asks nothing while the store counts as down."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import kvasir
from kvasir.vllm.counters import Counters
from kvasir.vllm.health import Health
from kvasir.vllm.options import Options

T = TypeVar("T")

# Failures of the way to the store, not of one block: after them the store counts as down.
_WAY = (
    kvasir.Timeout,
    kvasir.Closed,
    kvasir.Protocol,
    kvasir.SystemFailure,
    kvasir.Denied,
    kvasir.ForkedClient,
)


class StoreFailure(Exception):
    """The store gave no answer; ``reason`` is one of deadline, error, down, not_ready."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def connect(options: Options) -> kvasir.Client:
    """A client as the options say; raises kvasir.Error when the server cannot be reached."""
    return kvasir.Client(
        options.address,
        user=options.user or None,
        password=options.password or None,
        name="vllm",
        timeout=options.timeout_ms / 1000,
        connect_timeout=options.connect_timeout_ms / 1000,
        backoff=(0.02, 0.2),
        shm=options.shm,
        rdma=options.rdma,
    )


def make_health(
    name: str, options: Options, counters: Counters, logger: logging.Logger
) -> Health:
    def probe() -> None:
        client = connect(options)
        try:
            client.exists(b"kv1-probe", timeout=options.connect_timeout_ms / 1000)
        finally:
            client.close()

    return Health(name, probe, options.retry_ms, counters, logger)


def reason_of(error: BaseException) -> str:
    """The counters' word for a failed block or call."""
    if isinstance(error, (kvasir.Corrupt, kvasir.TooSmall)):
        return "corrupt"
    if isinstance(error, kvasir.Timeout):
        return "deadline"
    if isinstance(error, (kvasir.NoMemory, kvasir.TooLarge)):
        return "full"
    return "error"


class Store:
    """Used by one thread at a time."""

    def __init__(self, options: Options, health: Health, timeout_ms: int | None = None) -> None:
        self.options = options
        self.health = health
        self.path = "none"
        # Run with every new client, before its first call: registers memory with it.
        self.on_connect: Callable[[kvasir.Client], None] | None = None
        self._timeout = (timeout_ms or options.timeout_ms) / 1000
        self._client: kvasir.Client | None = None
        self._epoch = -1

    def prepare(self) -> None:
        """Connects already now, if the store is up; what fails will fail again when it matters."""
        with contextlib.suppress(StoreFailure):
            self._call(lambda _client, _timeout: None)

    def match(self, keys: Sequence[bytes], pin_ms: int) -> int:
        """How many leading keys are stored; found ones stay for pin_ms."""
        return self._call(lambda c, t: c.match(keys, pin=pin_ms / 1000, timeout=t))

    def exists(self, keys: Sequence[bytes]) -> list[bool]:
        """Per key whether it is stored (an error of one key reads as not stored)."""
        answers = self._call(lambda c, t: c.exists_batch(keys, timeout=t))
        self._look_at(answers)
        return [answer is True for answer in answers]

    def get_into(self, keys: Sequence[bytes], memory: Callable[[], Sequence[Any]]) -> list[Any]:
        """Per key its length, None (absent) or the error. Where to put them is asked once there is
        a client, which may be another one than at the last call."""
        answers = self._call(lambda c, t: c.get_into_batch(keys, memory(), timeout=t))
        self._look_at(answers)
        return answers

    def put_absent(
        self, keys: Sequence[bytes], memory: Callable[[], Sequence[Any]], parent: bytes | None
    ) -> list[Any]:
        """Stores a chain of blocks. Per key True (stored), False (was there) or the error. The
        memory is asked for as by :meth:`get_into`."""
        answers = self._call(
            lambda c, t: c.put_batch(
                keys,
                memory(),
                only_if_absent=True,
                checksum=self.options.checksum,
                parent=parent,
                chain=True,
                cost=self.options.cost,
                timeout=t,
            )
        )
        self._look_at(answers)
        return answers

    def get_small(self, key: bytes) -> bytes | None:
        return self._call(lambda c, t: c.get(key, timeout=t))

    def put_small(self, key: bytes, value: bytes) -> None:
        self._call(lambda c, t: c.put(key, value, timeout=t))

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _call(self, function: Callable[[kvasir.Client, float], T]) -> T:
        """Runs function(client, seconds left); connecting counts against the same deadline."""
        if not self.health.up:
            raise StoreFailure("down", "the store is down")
        end = time.monotonic() + self._timeout
        self._epoch, epoch = self.health.epoch, self._epoch
        if epoch != self._epoch:
            self.close()
        try:
            if self._client is None:
                self._client = connect(self.options)
                end += self._attach(self._client)
            answer = function(self._client, max(end - time.monotonic(), 0.001))
            self.path = self._client.path
            return answer
        except kvasir.Error as error:
            if isinstance(error, _WAY):
                self._lost(error)
            raise StoreFailure(reason_of(error), str(error)) from error

    def _attach(self, client: kvasir.Client) -> float:
        """Returns the seconds that it took: registering large tensors takes some, once, and is no
        sign of a sick store."""
        began = time.monotonic()
        if self.on_connect is not None:
            self.on_connect(client)
        return time.monotonic() - began

    def _look_at(self, answers: Sequence[Any]) -> None:
        for answer in answers:
            if isinstance(answer, _WAY):
                self._lost(answer)
                return

    def _lost(self, error: BaseException) -> None:
        self.close()
        self.health.fail(reason_of(error), str(error), self._epoch)
