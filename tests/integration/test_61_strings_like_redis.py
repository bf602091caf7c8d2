"""The commands on strings and keys answer as a real redis-server does: the same random commands, and
some chosen ones, are sent to both, and every reply is compared, in RESP2 and RESP3."""

import os
import random
import shutil
import socket
import subprocess
import tempfile
import time

import kvserver
import pytest
import resp

REDIS = shutil.which("redis-server")
COMMANDS = 6000

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")


class Redis:
    """A redis-server of its own, stopped by its pid."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="kvasir-redis-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        command = [REDIS, "--bind", "127.0.0.1", "--port", str(self.port)]
        command += ["--save", "", "--dir", self.folder]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        kvserver.wait_until(self._ready, "redis-server to start", 20.0)

    def _ready(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self):
        self.process.terminate()
        self.process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def redis():
    server = Redis()
    yield server
    server.stop()


@pytest.fixture(scope="module", params=[1, 4], ids=["one_reactor", "four_reactors"])
def kvasir(request):
    server = kvserver.Server(reactors=request.param)
    yield server
    server.stop()


def plain(reply):
    """A reply with its type, so that '+1' and ':1' differ; errors as their text."""
    if isinstance(reply, resp.Error):
        return ("error", str(reply))
    if isinstance(reply, list):
        return [plain(part) for part in reply]
    return (type(reply).__name__, reply)


def both(redis, kvasir, protocol):
    connections = [resp.Connection(redis.port), kvasir.connect()]
    for connection in connections:
        connection("HELLO", protocol)
        connection("FLUSHALL")
    return connections


def compare(connections, command):
    replies = []
    for connection in connections:
        connection.send(resp.encode(*command))
        replies.append(plain(connection.read_or_error()))
    if replies[0] != replies[1]:
        short = [str(what)[:300] for what in (command, *replies)]
        pytest.fail(f"{short[0]}: Redis {short[1]}, Kvasir {short[2]}", pytrace=False)
    return replies[0]


def joined(lists):
    return [part for one in lists for part in one]


class Commands:
    """Random commands, most of them sensible."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.keys = [f"k{i}" for i in range(8)] + ["{k}a", "{k}b"]

    def key(self):
        return self.random.choice(self.keys)

    def some_keys(self):
        return [self.key() for _ in range(self.random.randint(1, 4))]

    def value(self):
        kind = self.random.randrange(6)
        if kind == 0:
            return str(self.random.randint(-50, 50))
        if kind == 1:
            return f"{self.random.uniform(-9, 9):.3f}"
        if kind == 2:
            return self.random.randbytes(self.random.choice([0, 1, 7, 8, 9, 63, 200, 5000, 20000]))
        if kind == 3:
            return "abcdefghij"[: self.random.randint(0, 10)]
        if kind == 4:
            return b"\0" * self.random.randint(0, 40) + b"\xff" * self.random.randint(0, 40)
        return "v" * self.random.randint(0, 60)

    def number(self):
        return self.random.choice(
            [
                0,
                1,
                -1,
                2,
                5,
                -3,
                7,
                100,
                1 << 40,
                -(1 << 63),
                (1 << 63) - 1,
                "x",
                "1.5",
                "",
            ]
        )

    def small(self):
        return self.random.choice([*range(-12, 13), 63, 64, 200, "a", "", "01"])

    def later(self):
        """A time so far away that both clocks see it alike."""
        return self.random.choice([1000, 100000, 9999999999, 0, -1, "x"])

    def word(self, *words):
        word = self.random.choice([*words, None])
        return [] if word is None else [word]

    def expiry(self):
        unit = self.random.choice(["EX", "px", "EXAT", "PXAT", "KEEPTTL", "PERSIST", None])
        if unit is None:
            return []
        if unit in ("KEEPTTL", "PERSIST"):
            return [unit]
        return [unit, {"EX": 1000, "px": 1000000}.get(unit, 9999999999999)]

    def field(self):
        kind = self.random.choice(["GET", "SET", "INCRBY", "OVERFLOW", "set"])
        if kind == "OVERFLOW":
            return [kind, self.random.choice(["WRAP", "SAT", "FAIL", "sat"])]
        width = self.random.choice(["u8", "i8", "u1", "i64", "u63", "i5", "u13", "u64", "i0"])
        offset = self.random.choice([0, 1, 3, 8, 100, "#0", "#1", "#7", 7, "-1", "x"])
        number = self.number()
        if number == -(1 << 63):
            number += (
                1 << 16
            )  # Redis's own check of the range overflows there, and saturates upwards
        return [kind, width, offset] + ([] if kind == "GET" else [number])

    def letters(self):
        return "".join(self.random.choices("abc", k=self.random.choice([0, 1, 9, 80, 400])))

    def operation(self):
        return self.random.choice(["AND", "or", "XOR", "NOT", "x"])

    def bit_range(self):
        parts = [self.small(), self.small(), self.random.choice(["BIT", "BYTE", "x"])]
        return parts[: self.random.randint(0, 3)]

    def next(self):
        choose = self.random.choice
        key, value = self.key, self.value
        return choose(
            [
                lambda: ["SET", key(), value(), *self.word("NX", "XX"), *self.expiry()],
                lambda: ["SET", key(), value(), *self.word("GET"), *self.word("NX")],
                lambda: ["SET", key(), value()],
                lambda: ["GET", key()],
                lambda: ["SETNX", key(), value()],
                lambda: [choose(["SETEX", "PSETEX"]), key(), self.later(), value()],
                lambda: ["GETSET", key(), value()],
                lambda: ["GETDEL", key()],
                lambda: ["GETEX", key(), *self.expiry()],
                lambda: ["MGET", *self.some_keys()],
                lambda: ["MSET", *joined([key(), value()] for _ in range(3))],
                lambda: ["MSETNX", *joined([key(), value()] for _ in range(2))],
                lambda: [choose(["MSET", "MSETNX"]), key(), value(), key()],
                lambda: ["STRLEN", key()],
                lambda: ["SET", choose(["l1", "l2"]), self.letters()],
                lambda: ["LCS", "l1", "l2", *self.word("LEN", "IDX", "x")],
                lambda: [
                    "LCS",
                    "l1",
                    "l2",
                    "IDX",
                    *self.word("WITHMATCHLEN"),
                    "MINMATCHLEN",
                    2,
                ],
                lambda: [
                    choose(["GETRANGE", "SUBSTR"]),
                    key(),
                    self.small(),
                    self.small(),
                ],
                lambda: [
                    "SETRANGE",
                    key(),
                    choose([0, 3, 70, 5000, -1, "x", 1 << 50]),
                    value(),
                ],
                lambda: ["APPEND", key(), value()],
                lambda: [choose(["INCR", "DECR"]), key()],
                lambda: [choose(["INCRBY", "DECRBY"]), key(), self.number()],
                lambda: [
                    "INCRBYFLOAT",
                    key(),
                    choose([1, "1.5", -3, "1e2", "x", "inf", ""]),
                ],
                lambda: [
                    "SETBIT",
                    key(),
                    choose([0, 7, 9, 700, -1, "x", 1 << 33]),
                    self.small(),
                ],
                lambda: ["SETBIT", key(), choose([0, 7, 9, 700]), choose([0, 1])],
                lambda: ["GETBIT", key(), choose([0, 7, 9, 700, -1, "x", 1 << 40])],
                lambda: ["BITCOUNT", key(), *self.bit_range()],
                lambda: [
                    "BITPOS",
                    key(),
                    choose([0, 1, 1, 0, 2, "x"]),
                    *self.bit_range(),
                ],
                lambda: ["BITOP", self.operation(), key(), *self.some_keys()],
                lambda: ["BITFIELD", key(), *joined(self.field() for _ in range(3))],
                lambda: ["BITFIELD_RO", key(), *self.field()],
                lambda: ["RENAME", key(), key()],
                lambda: ["RENAMENX", key(), key()],
                lambda: ["COPY", key(), key(), *self.word("REPLACE"), *self.word("x")],
                lambda: ["COPY", key(), key(), "DB", choose([0, 1, 99, "x"])],
                lambda: ["MOVE", key(), choose([0, 1, 99, -1, "x"])],
                lambda: ["SELECT", choose([0, 0, 1])],
                lambda: [
                    choose(["DEL", "UNLINK", "EXISTS", "TOUCH"]),
                    *self.some_keys(),
                ],
                lambda: ["TYPE", key()],
                lambda: [
                    choose(["TTL", "EXPIRETIME", "PEXPIRETIME", "PERSIST"]),
                    key(),
                ],
                lambda: [
                    choose(["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"]),
                    key(),
                    choose([100000000, 9999999999999, 0, -1, "x", 1 << 62]),
                    *self.word("NX", "XX", "gt", "LT", "x"),
                    *self.word("NX", "XX", "gt"),
                ],
                lambda: ["DBSIZE"],
                lambda: ["OBJECT", choose(["REFCOUNT", "HELPX"]), "absent"],
                lambda: [choose(["GET", "APPEND", "BITOP", "COPY", "SETBIT", "RENAME", "MOVE"])],
            ]
        )()


# Replies that count seconds or milliseconds from now, or that tell the time itself, may differ by the
# moment between the two servers.
CLOCKED = {"TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"}


@pytest.mark.reactors
@pytest.mark.parametrize("protocol", [2, 3])
def test_random_commands_get_the_same_replies(redis, kvasir, protocol):
    seed = int(os.environ.get("KVASIR_SEED", str(time.time_ns())))
    print(f"KVASIR_SEED={seed}")
    commands = Commands(seed)
    connections = both(redis, kvasir, protocol)
    for _ in range(COMMANDS // (4 if kvserver.SANITIZE else 1)):
        command = commands.next()
        if command[0] not in CLOCKED:
            compare(connections, command)
            continue
        replies = []
        for connection in connections:
            connection.send(resp.encode(*command))
            replies.append(connection.read_or_error())
        a, b = replies
        assert a == b or (min(a, b) > 0 and abs(a - b) <= 10000), f"{command}: {replies}"
    for database in (0, 1):
        compare(connections, ["SELECT", database])
        for key in commands.keys:
            compare(connections, ["GET", key])
    for connection in connections:
        connection.close()


CHOSEN = [
    ["CLUSTER", "SLOTS"],
    ["CLUSTER", "INFO"],
    ["READONLY"],
    ["READWRITE"],
    ["ASKING"],
    ["EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"],
    ["SCRIPT", "EXISTS", "a", "b"],
    ["SCRIPT", "FLUSH"],
    ["SCRIPT", "KILL"],
    ["FCALL", "f", "0"],
    ["FUNCTION", "FLUSH"],
    ["FUNCTION", "LIST"],
    ["FUNCTION", "DELETE", "x"],
    ["WAIT", "0", "10"],
    ["WAIT", "x", "10"],
    ["WAIT", "1", "-1"],
    ["REPLICAOF", "NO", "ONE"],
    ["ROLE"],
    ["TYPE", "absent"],
    ["DUMP", "absent"],
    ["RESTORE", "k", "0", "x"],
    ["RESTORE", "k", "0", "0123456789abcdef"],
    ["RESTORE", "k", "0"],
    ["RESTORE", "k", "x", "0123456789abcdef"],
    ["RESTORE", "k", "-1", "0123456789abcdef"],
    ["RESTORE", "k", "0", "0123456789abcdef", "ODD"],
    ["RESTORE", "k", "0", "0123456789abcdef", "FREQ", "256"],
    ["RESTORE", "k", "0", "0123456789abcdef", "FREQ", "1", "IDLETIME", "1"],
    ["RESTORE", "k", "0", "0123456789abcdef", "IDLETIME", "-1"],
    ["RESTORE", "k", "0", "0123456789abcdef", "IDLETIME"],
    ["SWAPDB", "0", "0"],
    ["SWAPDB", "0", "1"],
    ["DBSIZE"],
    ["SWAPDB", "1", "0"],
    ["SWAPDB", "0", "16"],
    ["SWAPDB", "-1", "0"],
    ["SWAPDB", "x", "0"],
    ["SWAPDB", "0", "x"],
    ["COMMAND", "GETKEYSANDFLAGS", "nosuch", "x"],
    ["COMMAND", "GETKEYSANDFLAGS", "set", "k"],
    ["COMMAND", "GETKEYSANDFLAGS", "ping", "k"],
    ["OBJECT", "FREQ", "absent"],
    ["SET", "there", "x"],
    ["MEMORY", "PURGE"],
    ["MEMORY", "PURGE", "x"],
    ["MEMORY", "USAGE", "absent"],
    ["MEMORY", "USAGE", "there", "SAMPLES", "x"],
    ["MEMORY", "USAGE", "there", "SAMPLES", "-1"],
    ["MEMORY", "USAGE", "there", "SAMPLES"],
    ["MEMORY", "USAGE", "there", "ODD", "1"],
    ["SET", "number", "-12"],
    ["OBJECT", "ENCODING", "number"],
    ["OBJECT", "ENCODING", "there"],
    ["SET", "there", "x" * 45],
    ["OBJECT", "ENCODING", "there"],
    ["SELECT", "x"],
    ["SELECT", "16"],
    ["CONFIG", "SET", "nosuch", "1"],
    ["CONFIG", "SET", "timeout", "1", "timeout", "2"],
    ["CONFIG", "GET", "timeout"],
    ["ACL", "SETUSER", "nokeys", "%R", "%RW"],
    ["ACL", "GETUSER", "nokeys"],
    ["ACL", "DELUSER", "nokeys"],
    ["ACL", "SAVE"],
    ["ACL", "LOAD"],
    ["LOLWUT", "VERSION", "x"],
    ["RENAME", "absent", "absent"],
    ["nosuchcommand", "a", "b"],
]


@pytest.mark.parametrize("protocol", [2, 3])
def test_chosen_commands_get_the_same_replies(redis, kvasir, protocol):
    connections = both(redis, kvasir, protocol)
    for command in CHOSEN:
        compare(connections, command)
    for connection in connections:
        connection.close()


WITH_KEYS = [
    "SET k v",
    "SET k v GET EX 5",
    "MSET k v l w",
    "GETDEL k",
    "COPY k l",
    "RENAME k l",
    "RENAMENX k l",
    "BITOP AND k l m",
    "BITFIELD k GET u8 0",
    "BITFIELD k SET u8 0 1",
    "DEL k l",
    "APPEND k v",
    "GET k",
    "EXISTS k l",
    "EXPIRE k 1",
    "OBJECT FREQ k",
    "RESTORE k 0 x",
    "WATCH k l",
]


def test_what_commands_do_to_keys_is_told_alike(redis, kvasir):
    connections = both(redis, kvasir, 2)
    for line in WITH_KEYS:
        compare(connections, ["COMMAND", "GETKEYSANDFLAGS", *line.split()])
        compare(connections, ["COMMAND", "GETKEYS", *line.split()])
    names = [entry[0] for entry in connections[1]("COMMAND")]
    theirs, ours = (connection("COMMAND", "INFO", *names) for connection in connections)
    for name, their, our in zip(names, theirs, ours):
        if their is not None and our[3] > 0:  # shard channels are none of our keys
            specs = [spec[2:] if spec[0] == b"notes" else spec for spec in their[8]]
            assert our[8] == specs, name
    for connection in connections:
        connection.close()


def shape(arguments):
    """What redis-cli makes its hints of; groups have names of their own in Redis."""
    found = []
    for argument in arguments:
        facts = dict(zip(argument[::2], argument[1::2]))
        group = facts[b"type"] in (b"oneof", b"block")
        flags = sorted(facts.get(b"flags", []))
        token = facts.get(b"token")
        found.append(
            (group or facts[b"type"] == b"pure-token" or facts[b"name"], token, flags)
            + ((facts[b"type"], shape(facts[b"arguments"])) if group else ())
        )
    return found


# Described in other words here than there, but with the same meaning.
SAME_SHAPE = ["GET", "MGET", "DEL", "SET", "SETEX", "MSET", "APPEND", "COPY", "EXPIRE", "BITCOUNT"]
SAME_SHAPE += ["FLUSHALL", "PSETEX", "INCRBY", "RENAME", "SUBSCRIBE", "PUBLISH", "ECHO", "PING"]


def test_the_arguments_of_commands_are_told_alike(redis, kvasir):
    connections = both(redis, kvasir, 2)
    for name in SAME_SHAPE:
        shapes = []
        for connection in connections:
            reply = connection("COMMAND", "DOCS", name)
            docs = dict(zip(reply[1][::2], reply[1][1::2]))
            shapes.append(shape(docs[b"arguments"]))
        assert shapes[0] == shapes[1], name
    for connection in connections:
        connection.close()


@pytest.mark.parametrize("command", ["lpush", "HSET", "sync", "PSYNC", "zadd", "xadd"])
def test_what_is_absent_is_refused_with_what_to_use_instead(kvasir, command):
    with kvasir.connect() as connection:
        error = connection.error(command, "k", "v")
        assert error.startswith(f"ERR unknown command '{command}', with args beginning with: 'k' ")
        assert "(absent here: " in error
        assert connection("PING") == "PONG"


# Keys of every shard, written last: what was done before them was told when they are.
ENDS = [f"end{i}" for i in range(64)]


def notices(listener):
    """What a subscriber to all channels hears, key by key, until all keys of the end are there."""
    heard = {}
    ends = set()
    while len(ends) < len(ENDS):
        _, _, channel, text = listener.read()
        kind, _, rest = channel.decode("latin-1").partition("@")
        if b"__:end" in channel:
            ends.add(channel)
            continue
        database, _, name = rest.partition("__:")
        if kind == "__keyspace":
            key, event = (database, name), text.decode()
        else:
            key, event = (database, text.decode("latin-1")), f"E {name}"
        heard.setdefault(key, []).append(event)
    return heard


# SETBIT and BITFIELD tell here also of bits that were so already; RENAME and COPY over a key that is
# there delete it first in Redis, which then is new.
NOT_TOLD_ALIKE = {
    "SETBIT",
    "BITFIELD",
    "RENAME",
    "RENAMENX",
    "COPY",
    "MOVE",
    "LCS",
    "OBJECT",
}


@pytest.mark.reactors
def test_keyspace_notifications_are_the_same(redis, kvasir):
    seed = int(os.environ.get("KVASIR_SEED", str(time.time_ns())))
    print(f"KVASIR_SEED={seed}")
    commands = Commands(seed)
    connections = both(redis, kvasir, 2)
    listeners = [resp.Connection(redis.port), kvasir.connect()]
    for connection, listener in zip(connections, listeners):
        connection("CONFIG", "SET", "notify-keyspace-events", "KEA")
        listener("PSUBSCRIBE", "*")
    for _ in range(COMMANDS // (20 if kvserver.SANITIZE else 5)):
        command = commands.next()
        if command[0].upper() not in NOT_TOLD_ALIKE:
            for connection in connections:
                connection.send(resp.encode(*command))
                connection.read_or_error()
    heard = []
    for connection, listener in zip(connections, listeners):
        connection("CONFIG", "SET", "notify-keyspace-events", "KA")
        connection.pipeline([("SET", key, "") for key in ENDS])
        heard.append(notices(listener))
        connection("CONFIG", "SET", "notify-keyspace-events", "")
    assert heard[0].keys() == heard[1].keys()
    for key in heard[0]:
        assert heard[0][key] == heard[1][key], key
    for connection in connections + listeners:
        connection.close()


def crc64(data):
    sum_ = 0
    for byte in data:
        sum_ ^= byte
        for _ in range(8):
            sum_ = sum_ >> 1 ^ (0x95AC9329AC4BC9B5 if sum_ & 1 else 0)
    return sum_


def sealed(body):
    """A dump of these bytes with the version and the checksum that belong to them."""
    data = body + b"\n\0"
    return data + crc64(data).to_bytes(8, "little")


TOLD = [
    (["SET", "a", "1"], ["set"]),
    (["SET", "b", "1", "EX", "1000"], ["set", "expire"]),
    (["SETEX", "b", "1000", "1"], ["set", "expire"]),
    (["GETEX", "b", "EX", "500"], ["expire"]),
    (["GETEX", "b", "PERSIST"], ["persist"]),
    (["GETEX", "b", "PERSIST"], []),
    (["EXPIRE", "b", "100"], ["expire"]),
    (["PERSIST", "b"], ["persist"]),
    (["EXPIRE", "b", "-1"], ["del"]),
    (["GETSET", "c", "1"], ["set"]),
    (["SET", "c", "2", "KEEPTTL"], ["set"]),
    (["INCR", "c"], ["incrby"]),
    (["DECRBY", "c", "3"], ["incrby"]),
    (["INCRBYFLOAT", "c", "1.5"], ["incrbyfloat"]),
    (["APPEND", "c", "x"], ["append"]),
    (["SETRANGE", "c", "9", "x"], ["setrange"]),
    (["SETRANGE", "c", "9", ""], []),
    (["SETBIT", "d", "7", "1"], ["setbit"]),
    (["BITFIELD", "d", "SET", "u8", "0", "9"], ["setbit"]),
    (["BITFIELD", "d", "GET", "u8", "0"], []),
    (["BITOP", "AND", "e", "d"], ["set"]),
    (["BITOP", "AND", "e", "absent"], ["del"]),
    (["COPY", "d", "f"], ["copy_to"]),
    (["RENAME", "f", "g"], ["rename_from", "rename_to"]),
    (["MOVE", "g", "1"], ["move_from", "move_to"]),
    (["MSET", "h", "1", "i", "2"], ["set", "set"]),
    (["MSETNX", "j", "1", "k", "2"], ["set", "set"]),
    (["MSETNX", "j", "1", "l", "2"], []),
    (["GETDEL", "h"], ["del"]),
    (["DEL", "i", "absent"], ["del"]),
    (["UNLINK", "j"], ["del"]),
    (["SET", "a", "x" * 100000], ["set"]),
    (["SET", "a", "y", "NX"], []),
    (["RESTORE", "z", "100000", sealed(b"\0\x01a")], ["restore"]),
    (["FLUSHALL"], []),
    (["DEL", "a"], []),
]


@pytest.mark.reactors
def test_every_write_is_told_by_redis_name(redis, kvasir):
    connections = both(redis, kvasir, 3)
    for connection in connections:
        connection("CONFIG", "SET", "notify-keyspace-events", "Kg$")
        connection("PSUBSCRIBE", "*")
    for command, told in TOLD:
        for connection in connections:
            connection.send(resp.encode(*command) + resp.encode("PING"))
            heard = []
            answers = 0
            while answers < 2 or len(heard) < len(told):
                reply = connection.read_or_error()
                if isinstance(reply, list) and reply[:1] == [b"pmessage"]:
                    heard.append(reply[3].decode())
                else:
                    answers += 1
            assert sorted(heard) == sorted(told), command
    for connection in connections:
        connection("CONFIG", "SET", "notify-keyspace-events", "")
        connection.close()


DUMPED = [
    b"",
    b"a",
    b"0",
    b"-7",
    b"127",
    b"-32768",
    b"2147483647",
    b"-2147483648",
    b"2147483648",
    b"007",
    b"x" * 63,
    b"x" * 64,
    b"abcabcabc" * 50,
    b"x" * 16383,
    bytes(range(256)) * 64,
    b"ab" * 100000,
    random.Random(7).randbytes(300000),
    random.Random(8).randbytes(70000) * 5 + b"\0" * 2000000,
]


@pytest.mark.parametrize("protocol", [2, 3])
def test_dumps_go_both_ways(redis, kvasir, protocol):
    connections = both(redis, kvasir, protocol)
    for value in DUMPED:
        for giver, taker in (connections, connections[::-1]):
            giver("SET", "from", value)
            dump = giver("DUMP", "from")
            for connection in connections:
                connection("DEL", "to")
                assert connection("RESTORE", "to", 0, dump) == "OK"
                assert connection("GET", "to") == value
                error = connection.error("RESTORE", "to", 0, dump)
                assert error == "BUSYKEY Target key name already exists."
            assert taker("RESTORE", "to", 100000, dump, "REPLACE", "IDLETIME", 5) == "OK"
            assert 90000 < taker("PTTL", "to") <= 100000
    for connection in connections:
        connection("SET", "from", "value")
        dump = connection("DUMP", "from")
        assert connection("RESTORE", "to", 1, dump, "REPLACE", "ABSTTL") == "OK"
        assert connection("GET", "to") is None
        commands = [
            ("MULTI",),
            ("DUMP", "from"),
            ("RESTORE", "to", 0, dump),
            ("GET", "to"),
        ]
        assert connection.pipeline([*commands, ("EXEC",)])[4] == [dump, "OK", b"value"]
        connection.close()


def test_damaged_dumps_are_refused_alike(redis, kvasir):
    connections = both(redis, kvasir, 2)
    chance = random.Random(int(os.environ.get("KVASIR_SEED", str(time.time_ns()))))
    connections[0]("SET", "from", b"abc" * 100)
    dump = connections[0]("DUMP", "from")
    for _ in range(200):
        damaged = bytearray(dump)
        damaged[chance.randrange(len(dump))] ^= 1 << chance.randrange(8)
        reply = compare(connections, ["RESTORE", "to", "0", bytes(damaged)])
        assert reply == ("error", "ERR DUMP payload version or checksum are wrong")
        compare(
            connections,
            ["RESTORE", "to", "0", bytes(dump[: chance.randrange(len(dump))])],
        )
    for connection in connections:
        assert connection("EXISTS", "to") == 0
        connection.close()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0",
        b"\x01\x00",  # a list
        b"\0\x05abcd",  # shorter than it says
        b"\0\x03abcd",  # longer
        b"\0\x40",
        b"\0\x80\xff\xff",
        b"\0\x81" + b"\xff" * 8,
        b"\0\x82\0\0\0\0",
        b"\0\xc1\0",
        b"\0\xc4\0",
        b"\0\xc3\x02\x05\x20\x00",  # copies what is before the beginning
        b"\0\xc3\x02\x02\x00a",  # gives less than it says
        b"\0\xc3\x03\x01\x01ab",  # gives more
        b"\0\xc3\x01\x05\x1f",  # literals that are not there
        b"\0\xc3\x01\x81" + b"\x7f" + b"\xff" * 7 + b"a",
    ],
)
def test_what_is_no_string_is_refused(kvasir, body):
    with kvasir.connect() as connection:
        error = connection.error("RESTORE", "n", 0, sealed(body))
        assert error.startswith("ERR Bad data format") or "memory" in error
        assert connection("EXISTS", "n") == 0
        newer = b"\0\x01a\x0b\0"
        error = connection.error("RESTORE", "n", 0, newer + crc64(newer).to_bytes(8, "little"))
        assert error == "ERR DUMP payload version or checksum are wrong"


@pytest.mark.parametrize("length", [2**64 - 1, 2**64 - 7, 2**64 - 8, 2**63, 65 << 20])
def test_a_packed_string_claims_no_length_that_wraps_around(kvasir, length):
    """Lengths that become small when they are rounded up, before bytes that would not fit then."""
    packed = (b"\x1f" + b"a" * 32) * 1024
    head = b"\0\xc3\x80" + len(packed).to_bytes(4, "big") + b"\x81" + length.to_bytes(8, "big")
    with kvasir.connect() as connection:
        assert "memory" in connection.error("RESTORE", "n", 0, sealed(head + packed))
        assert connection("EXISTS", "n") == 0


def test_a_long_dump_lets_others_through(kvasir):
    """The sum over 64 MiB is made in many turns, and the bytes are right."""
    value = random.Random(1).randbytes(1 << 20) * (8 if kvserver.SANITIZE else 64)
    with kvasir.connect() as connection, kvasir.connect() as other:
        connection("SET", "long", value)
        connection.send(resp.encode("DUMP", "long"))
        while other("PING") == "PONG" and not connection.buffer:
            connection._fill()
        dump = connection.read()
        assert dump[2 + 4 : -10] == value
        assert connection("RESTORE", "again", 0, dump) == "OK"
        assert connection("GETRANGE", "again", len(value) - 5, -1) == value[-5:]
        connection("DEL", "long", "again")


@pytest.mark.reactors
def test_msetnx_is_never_half_done(kvasir):
    """Two connections of different reactors try the same keys: what is stored is one's, whole."""
    keys = [f"m{i}" for i in range(100)]
    with kvasir.connect() as first, kvasir.connect() as second:
        for turn in range(100 // (4 if kvserver.SANITIZE else 1)):
            first("DEL", *keys)
            for connection, name in ((first, "a"), (second, "b")):
                pairs = joined([key, f"{name}{turn}"] for key in keys)
                connection.send(resp.encode("MSETNX", *pairs))
            done = [first.read(), second.read()]
            assert sorted(done) == [0, 1]
            winner = b"%c%d" % (b"ab"[done.index(1)], turn)
            assert first("MGET", *keys) == [winner] * len(keys)


def test_msetnx_beside_single_sets_keeps_all_or_nothing(kvasir):
    keys = [f"n{i}" for i in range(50)]
    with kvasir.connect() as first, kvasir.connect() as second:
        for turn in range(50):
            first("DEL", *keys)
            second.send(resp.encode("SET", keys[turn], "single"))
            done = first("MSETNX", *joined([key, "all"] for key in keys))
            second.read()
            values = first("MGET", *keys)
            others = values[:turn] + values[turn + 1 :]
            assert others == ([b"all"] if done else [None]) * len(others)


@pytest.mark.reactors
@pytest.mark.parametrize("count", [2, 20, 600])
def test_mset_is_one_step(kvasir, count):
    """Two connections write all keys again and again; who reads them in one step sees one's."""
    keys = [f"s{i}" for i in range(count)]
    turns = 40 // (4 if kvserver.SANITIZE else 1)
    writers = [kvasir.connect() for _ in range(2)]
    with kvasir.connect() as reader:
        reader("MSET", *joined([key, "first"] for key in keys))
        for number, writer in enumerate(writers):
            writer.send(
                b"".join(
                    resp.encode("MSET", *joined([key, f"{number}-{turn}"] for key in keys))
                    for turn in range(turns)
                )
            )
        seen = set()
        for _ in range(turns):
            values = reader.pipeline([("MULTI",), ("MGET", *keys), ("EXEC",)])[2][0]
            assert len(set(values)) == 1, values
            seen.add(values[0])
        for writer in writers:
            assert [writer.read() for _ in range(turns)] == ["OK"] * turns
            writer.close()
        assert reader("MGET", *keys)[0].endswith(b"-%d" % (turns - 1))


def test_mset_keeps_its_place_in_a_pipeline(kvasir):
    keys = [f"p{i}" for i in range(30)]
    with kvasir.connect() as connection:
        for turn in range(20):
            commands = [("SET", keys[turn], "before"), ("GET", keys[turn])]
            commands.append(("MSET", *joined([key, f"v{turn}"] for key in keys)))
            commands += [("GET", keys[turn]), ("APPEND", keys[turn], "x"), ("STRLEN", keys[turn])]
            value = b"v%d" % turn
            length = len(value) + 1
            assert connection.pipeline(commands) == ["OK", b"before", "OK", value, length, length]
        assert connection("MSET", "a", 1, "b", 2, "a", 3) == "OK"
        assert connection("MGET", "a", "b") == [b"3", b"2"]
        long = [b"%d" % i * 30000 for i in range(8)]
        assert connection("MSET", *joined(zip(keys, long))) == "OK"
        assert connection("MGET", *keys[:8]) == long
