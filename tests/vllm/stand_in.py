"""A stand-in for kvasir.Client that keeps values in a directory: for tests of the connector that
need no server, or faults that a real server does not make on command."""

import os
import time

import kvasir


class DirectoryClient:
    """The calls that the connector uses, with the same answers. The file ``fault`` in the directory
    makes every call fail: "closed", "timeout", or "stopped" (waits for the deadline first)."""

    path = "tcp"

    def __init__(self, directory):
        self._directory = directory
        os.makedirs(directory, exist_ok=True)
        self._fault(0.5)

    def _file(self, key):
        return os.path.join(self._directory, key.hex())

    def _fault(self, timeout):
        try:
            with open(os.path.join(self._directory, "fault"), encoding="utf-8") as file:
                fault = file.read().strip()
        except FileNotFoundError:
            return
        if fault == "stopped":
            time.sleep(timeout or 1.0)
        raise kvasir.Closed(fault) if fault == "closed" else kvasir.Timeout(fault)

    def register(self, buffer):
        return False

    def match(self, keys, pin=0.0, *, timeout=None):
        self._fault(timeout)
        count = 0
        while count < len(keys) and os.path.exists(self._file(keys[count])):
            count += 1
        return count

    def exists(self, key, *, timeout=None):
        self._fault(timeout)
        return os.path.exists(self._file(key))

    def exists_batch(self, keys, *, timeout=None):
        self._fault(timeout)
        return [os.path.exists(self._file(key)) for key in keys]

    def get(self, key, *, timeout=None):
        self._fault(timeout)
        try:
            with open(self._file(key), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def put(self, key, data, *, timeout=None):
        self._fault(timeout)
        self._write(key, bytes(data))
        return True

    def get_into_batch(self, keys, buffers, *, timeout=None):
        self._fault(timeout)
        return [self._scatter(self.get(k), b) for k, b in zip(keys, buffers)]

    def put_batch(self, keys, data, *, only_if_absent=False, timeout=None, **options):
        self._fault(timeout)
        answers = []
        for key, pieces in zip(keys, data):
            if only_if_absent and os.path.exists(self._file(key)):
                answers.append(False)
                continue
            self._write(key, b"".join(bytes(piece) for piece in _list(pieces)))
            answers.append(True)
        return answers

    def _write(self, key, value):
        partial = f"{self._file(key)}.{os.getpid()}.{id(self)}"
        with open(partial, "wb") as file:
            file.write(value)
        os.rename(partial, self._file(key))

    @staticmethod
    def _scatter(value, pieces):
        if value is None:
            return None
        room = sum(memoryview(piece).nbytes for piece in _list(pieces))
        if len(value) > room:
            return kvasir.TooSmall("too small", length_bytes=len(value))
        at = 0
        for piece in _list(pieces):
            view = memoryview(piece).cast("B")
            part = value[at : at + view.nbytes]
            view[: len(part)] = part
            at += view.nbytes
        return len(value)

    def close(self):
        pass


def _list(pieces):
    return pieces if isinstance(pieces, (list, tuple)) else [pieces]
