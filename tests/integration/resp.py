"""A bare RESP client: what goes over the wire is in the test's hands. One thread a connection."""

import array
import mmap
import os
import socket
import time

DEADLINE_S = 20.0


class Error(Exception):
    """An error reply; str() is its text without the '-'."""


class Closed(Exception):
    """The server closed the connection."""


class Simple(str):
    """A status reply, so that '+OK' and '$2 OK' can be told apart."""


def encode(*arguments):
    out = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        if isinstance(argument, (int, float)):
            argument = str(argument)
        if isinstance(argument, str):
            argument = argument.encode()
        out += [b"$%d\r\n" % len(argument), argument, b"\r\n"]
    return b"".join(out)


class Connection:
    """To a TCP port (int) or a Unix socket (path). tls: an ssl.SSLContext."""

    def __init__(self, where, password=None, deadline_s=DEADLINE_S, receive_buffer=None, tls=None):
        tcp = isinstance(where, int)
        self.socket = socket.socket(socket.AF_INET if tcp else socket.AF_UNIX)
        self.socket.settimeout(deadline_s)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(("127.0.0.1", where) if tcp else str(where))
        if tcp:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.buffer = bytearray()
        self.start = 0
        self.descriptors = []
        if password is not None:
            self("AUTH", password)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as reason:
            raise Closed(str(reason)) from reason

    def __call__(self, *arguments):
        """Sends one command and returns its reply; an error reply is raised."""
        self.send(encode(*arguments))
        return self.read()

    def error(self, *arguments):
        """The text of the error that the command must give."""
        try:
            reply = self(*arguments)
        except Error as error:
            return str(error)
        raise AssertionError(f"{arguments[0]} gave {str(reply)[:80]} and no error")

    def pipeline(self, commands):
        """Sends all, then reads all; errors are in the list."""
        self.send(b"".join(encode(*command) for command in commands))
        return [self.read_or_error() for _ in commands]

    def read_or_error(self):
        try:
            return self.read()
        except Error as error:
            return error

    def closed(self):
        """Reads to the end; what came before it. Fails when the server does not close."""
        rest = bytes(self.buffer[self.start :])
        while True:
            try:
                part = self.socket.recv(1 << 16)
            except ConnectionResetError:
                return rest
            if not part:
                return rest
            rest += part

    def _fill(self):
        ancillary = self.socket.family == socket.AF_UNIX
        try:
            if ancillary:
                data, messages, _, _ = self.socket.recvmsg(1 << 20, socket.CMSG_SPACE(8 * 4))
                for level, kind, body in messages:
                    if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                        numbers = array.array("i")
                        numbers.frombytes(body[: len(body) - len(body) % numbers.itemsize])
                        self.descriptors += numbers
            else:
                data = self.socket.recv(1 << 20)
        except ConnectionResetError as reason:
            raise Closed(str(reason)) from reason
        if not data:
            raise Closed("end of stream")
        if self.start > 1 << 16:
            del self.buffer[: self.start]
            self.start = 0
        self.buffer += data

    def _line(self):
        while True:
            end = self.buffer.find(b"\r\n", self.start)
            if end >= 0:
                line = bytes(self.buffer[self.start : end])
                self.start = end + 2
                return line
            self._fill()

    def _bytes(self, count):
        while len(self.buffer) - self.start < count + 2:
            self._fill()
        data = bytes(self.buffer[self.start : self.start + count])
        assert self.buffer[self.start + count : self.start + count + 2] == b"\r\n"
        self.start += count + 2
        return data

    def read(self):
        line = self._line()
        kind, text = line[:1], line[1:]
        if kind == b"+":
            return Simple(text.decode())
        if kind == b"-":
            raise Error(text.decode("latin-1"))
        if kind == b":":
            return int(text)
        if kind == b"$":
            return None if text == b"-1" else self._bytes(int(text))
        if kind == b"=":
            return self._bytes(int(text))[4:]
        if kind == b"_":
            return None
        if kind == b"#":
            return text == b"t"
        if kind == b",":
            return float(text)
        if kind in b"*~>":
            return None if text == b"-1" else [self.read_or_error() for _ in range(int(text))]
        if kind == b"%":
            return {self.read(): self.read_or_error() for _ in range(int(text))}
        raise AssertionError(f"not RESP: {line[:80]!r}")


class RingConnection(Connection):
    """Over rings in shared memory, once connected; `memory` is the staging descriptor's mapping. A ring
    has a page of its own for positions and flags, then its bytes; requests come first."""

    HEADER = 4096
    LINE = 64  # written, read, reader_sleeps, writer_sleeps: one a line

    def __init__(self, path, staging=1 << 20, **options):
        super().__init__(path, **options)
        self.rings = False
        reply = self("KV.CONNECT", "SHM", "STAGING", staging)
        facts = dict(zip((name.decode() for name in reply[::2]), reply[1::2]))
        self.capacity = facts["ring_bytes"]
        self.memory = mmap.mmap(self.descriptors[1], 0)
        at = facts["ring_offset"]
        self.words = memoryview(self.memory).cast("I")
        self.requests, self.replies = at, at + self.HEADER + self.capacity
        assert self("KV.CONNECT", "RING") == "OK"
        self.rings = True

    def word(self, ring, line):
        return (ring + line * self.LINE) // 4

    def _copy(self, ring, position, data=None, length=0):
        """Writes data at the position, or returns length bytes of it."""
        base, at = ring + self.HEADER, position % self.capacity
        first = min(self.capacity - at, len(data) if data is not None else length)
        if data is None:
            return self.memory[base + at : base + at + first] + (
                self.memory[base : base + length - first]
            )
        self.memory[base + at : base + at + first] = data[:first]
        self.memory[base : base + len(data) - first] = data[first:]
        return data

    def _bell(self):
        try:
            self.socket.send(b"!", socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass  # there are bells enough

    def _wait(self, true, line):
        """Until true, ringing and being rung for."""
        end = time.monotonic() + DEADLINE_S
        while not true():
            self.words[line] = 1
            if not true():
                self.socket.settimeout(0.01)
                try:
                    if not self.socket.recv(64):
                        if true():
                            return
                        raise Closed("end of stream")
                except TimeoutError:
                    pass
                except ConnectionResetError as reason:
                    raise Closed(str(reason)) from reason
            if time.monotonic() > end:
                raise TimeoutError("nothing moves in the ring")

    def send(self, data):
        if not self.rings:
            return super().send(data)
        written, read = self.word(self.requests, 0), self.word(self.requests, 1)
        done = 0
        try:
            while done < len(data):
                self._wait(
                    lambda: (self.words[written] - self.words[read]) % 2**32 < self.capacity,
                    self.word(self.requests, 3),
                )
                room = self.capacity - (self.words[written] - self.words[read]) % 2**32
                part = data[done : done + room]
                self._copy(self.requests, self.words[written], part)
                self.words[written] = (self.words[written] + len(part)) % 2**32
                done += len(part)
                self._bell()
                # Both rings may be full at once: what is answered is taken meanwhile.
                self._take()
        except (BrokenPipeError, ConnectionResetError) as reason:
            raise Closed(str(reason)) from reason

    def _take(self):
        written, read = self.word(self.replies, 0), self.word(self.replies, 1)
        end = self.words[written]
        held = (end - self.words[read]) % 2**32
        self.buffer += self._copy(self.replies, self.words[read], None, held)
        self.words[read] = end

    def _fill(self):
        if not self.rings:
            return super()._fill()
        written, read = self.word(self.replies, 0), self.word(self.replies, 1)
        self._wait(lambda: self.words[written] != self.words[read], self.word(self.replies, 2))
        self._take()
        self._bell()

    def closed(self):
        try:
            while True:
                self._fill()
        except Closed:
            return bytes(self.buffer[self.start :])

    def close(self):
        self.words.release()
        self.memory.close()
        for descriptor in self.descriptors:
            os.close(descriptor)
        super().close()
