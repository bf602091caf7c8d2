"""Stand-ins for vLLM's objects and for the store, with just what the connector's halves read."""

import ctypes
import hashlib
import logging
from types import SimpleNamespace

from kvasir.vllm.counters import Counters
from kvasir.vllm.options import Options
from kvasir.vllm.store import StoreFailure

BLOCK = 4  # tokens per block


def block_hash(name, i):
    return hashlib.sha256(f"{name}/{i}".encode()).digest()


class Request(SimpleNamespace):
    """A request of vLLM with n tokens whose hashes follow from its prompt's name."""

    def __init__(self, request_id, tokens, prompt="p"):
        super().__init__(
            request_id=request_id,
            num_tokens=tokens,
            num_prompt_tokens=tokens,
            num_computed_tokens=0,
            block_hashes=[block_hash(prompt, i) for i in range(tokens // BLOCK)],
        )


def step(new=(), cached=(), scheduled=None, spec=None, resumed=()):
    """A SchedulerOutput: new is (id, blocks, computed), cached is (id, new blocks, computed)."""
    scheduled = scheduled or {}
    return SimpleNamespace(
        scheduled_new_reqs=[
            SimpleNamespace(req_id=r, block_ids=(list(b),), num_computed_tokens=c)
            for r, b, c in new
        ],
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=[r for r, _, _ in cached],
            new_block_ids=[(list(b),) if b else None for _, b, _ in cached],
            num_computed_tokens=[c for _, _, c in cached],
            resumed_req_ids=set(resumed),
        ),
        num_scheduled_tokens=scheduled,
        total_num_scheduled_tokens=sum(scheduled.values()),
        scheduled_spec_decode_tokens=spec or {},
    )


class FakeHealth:
    def __init__(self):
        self.up = True
        self.epoch = 0
        self.failures = []

    def fail(self, reason, text, epoch=None):
        self.up = False
        self.failures.append(reason)

    def close(self):
        pass


class FakeStore:
    """Values in a dictionary; fail_with makes the next calls fail, gate holds put calls up."""

    path = "tcp"

    def __init__(self, options=None, values=None):
        self.options = options or Options()
        self.health = FakeHealth()
        self.values = {} if values is None else values
        self.matches = []
        self.puts = []
        self.fail_with = ""
        self.gate = None
        self.closed = False

    def _check(self):
        if self.fail_with:
            raise StoreFailure(self.fail_with, "as told")

    def match(self, keys, pin_ms):
        self.matches.append((list(keys), pin_ms))
        self._check()
        count = 0
        while count < len(keys) and keys[count] in self.values:
            count += 1
        return count

    def exists(self, keys):
        self._check()
        return [key in self.values for key in keys]

    def get_into(self, keys, memory):
        self._check()
        return [self._fill(key, pieces) for key, pieces in zip(keys, memory())]

    def prepare(self):
        pass

    def _fill(self, key, pieces):
        value = self.values.get(key)
        if value is None or isinstance(value, Exception):
            return value
        at = 0
        for piece in pieces:
            part = value[at : at + len(piece)]
            piece[: len(part)] = part
            at += len(piece)
        return len(value)

    def put_absent(self, keys, memory, parent):
        if self.gate is not None:
            self.gate.wait(10)
        self._check()
        self.puts.append((list(keys), parent))
        answers = []
        for key, pieces in zip(keys, memory()):
            answers.append(key not in self.values)
            self.values.setdefault(key, b"".join(bytes(piece) for piece in pieces))
        return answers

    def get_small(self, key):
        self._check()
        return self.values.get(key)

    def put_small(self, key, value):
        self._check()
        self.values[key] = value

    def close(self):
        self.closed = True


class FakeTensor:
    """Host memory with the shape, strides and address that a torch tensor would show."""

    def __init__(self, shape, stride=None, item=1, address=None):
        self.shape = shape
        self._item = item
        natural, size = [], 1
        for length in reversed(shape):
            natural.insert(0, size)
            size *= length
        self._stride = stride or tuple(natural)
        self._raw = None
        if address is None:
            self._raw = (ctypes.c_char * (size * item))()
            address = ctypes.addressof(self._raw)
        self._address = address
        self.dtype = "torch.uint8"
        self.device = SimpleNamespace(type="cpu")

    def stride(self):
        return self._stride

    def element_size(self):
        return self._item

    def data_ptr(self):
        return self._address

    def bytes(self):
        return memoryview(self._raw).cast("B")


def counters():
    return Counters()


def quiet():
    logger = logging.getLogger("test-kvasir")
    logger.setLevel(logging.CRITICAL + 1)
    return logger
