"""Requests of many keys are one step for everybody, wherever the keys lie: others see all of it or
nothing."""

import threading

import pytest
import resp

pytestmark = pytest.mark.reactors

KEYS = [f"key:{number}" for number in range(24)]  # some in each shard
ROUNDS = 100
PIPELINE = 20
LIMIT_S = 120


@pytest.fixture(params=[2, 4])
def server(start, request):
    return start(reactors=request.param)


def pairs(text):
    return [word for key in KEYS for word in (key, text)]


def change_and_look(server, changes, look, check):
    """Several connections make the changes (a command for each round) while others look, in pipelines; check
    is called with each answer to look."""
    failures = []

    def run(work):
        try:
            with server.connect() as connection:
                work(connection)
        except (AssertionError, OSError, resp.Error, resp.Closed) as failure:
            failures.append(failure)

    def change(connection):
        for number in range(ROUNDS):
            connection.pipeline([changes(number * PIPELINE + i) for i in range(PIPELINE)])

    def watch(connection):
        for _ in range(ROUNDS):
            for answer in connection.pipeline([look] * PIPELINE):
                check(answer)

    threads = [
        threading.Thread(target=run, args=[work], daemon=True) for work in [change, watch] * 4
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive(), "a request was not answered"
    assert not failures, failures[0]


def test_mget_sees_all_of_an_mset(server):
    def check(answer):
        assert len(set(answer)) == 1, f"torn: {answer}"

    change_and_look(server, lambda number: ["MSET", *pairs(number)], ["MGET", *KEYS], check)


@pytest.mark.parametrize("delete", ["DEL", "UNLINK"])
def test_exists_sees_all_of_a_delete(server, delete):
    def changes(number):
        return ["MSET", *pairs(number)] if number % 2 == 0 else [delete, *KEYS]

    def check(answer):
        assert answer in (0, len(KEYS)), f"torn: {answer} keys"

    change_and_look(server, changes, ["EXISTS", *KEYS], check)


def test_pipelines_of_all_kinds_keep_their_order(server):
    """Requests of one and several shards, of few and many keys, and others between them."""
    many = [f"many:{number}" for number in range(300)]
    commands = []
    expected = []
    for number in range(40):
        text = str(number).encode()
        commands += [
            ["MSET", *pairs(number)],
            ["MGET", *KEYS],
            ["GET", KEYS[number % len(KEYS)]],
            ["MGET", "{same}a", "{same}b"],
            ["EXISTS", *KEYS, "absent"],
            ["MGET", *KEYS[:2], *KEYS[:2]],
            ["SET", KEYS[0], "x"],
            ["TOUCH", *KEYS],
            ["MGET", *KEYS],
            ["EXISTS", *many],
            ["DEL", *KEYS[:3]],
            ["MGET", *KEYS[:4]],
        ]
        expected += [
            "OK",
            [text] * len(KEYS),
            text,
            [None, None],
            len(KEYS),
            [text] * 4,
            "OK",
            len(KEYS),
            [b"x"] + [text] * (len(KEYS) - 1),
            0,
            3,
            [None, None, None, text],
        ]
    with server.connect() as connection:
        assert connection.pipeline(commands) == expected


def test_as_many_keys_as_one_step_takes_and_more(server):
    with server.connect() as connection:
        for count in (255, 256, 257, 600):
            keys = [f"n:{number}" for number in range(count)]
            connection("MSET", *[word for key in keys for word in (key, key)])
            values = [key.encode() for key in keys]
            answers = connection.pipeline([["MGET", *keys], ["MGET", *keys], ["TOUCH", *keys]])
            assert answers == [values, values, count]
            assert connection.pipeline([["GET", "n:0"], ["UNLINK", *keys]]) == [b"n:0", count]


def test_edits_of_a_long_value_end_whoever_else_changes_it(start):
    """An edit takes many turns, and others give the key a new value in each of them. Commands of several
    keys hold shards and cannot wait for it."""
    server = start(reactors=2)
    long = b"s" * (12 << 20)
    failures, ended = [], []
    stop = threading.Event()

    def run(work):
        try:
            with server.connect() as connection:
                work(connection)
        except (AssertionError, OSError, resp.Error, resp.Closed) as failure:
            failures.append(failure)

    def disturb(connection):
        while not stop.is_set():
            assert connection("SET", "k", long) == "OK"
            assert connection.pipeline([("MULTI",), ("SET", "k", "short"), ("EXEC",)])[2] == ["OK"]
            assert connection("SET", "k", long) == "OK"
            assert connection("DEL", "k", "other", "third") <= 3
            assert connection("MSETNX", "k", "a", "other", "b", "third", "c") in (0, 1)

    def edit(command):
        def work(connection):
            for _ in range(6):
                assert connection(*command) >= 1
                ended.append(command)

        return work

    edits = [("APPEND", "k", "x"), ("SETRANGE", "k", "11000000", "y"), ("APPEND", "k", "z")]
    disturber = threading.Thread(target=run, args=(disturb,))
    editors = [threading.Thread(target=run, args=(edit(command),)) for command in edits]
    for thread in [disturber, *editors]:
        thread.start()
    for thread in editors:
        thread.join(LIMIT_S)
    stop.set()
    disturber.join(LIMIT_S)
    assert failures == []
    assert len(ended) == 6 * len(edits)
    with server.connect() as connection:
        assert connection("SET", "k", "end") == "OK"
        assert connection("APPEND", "k", "!") == 4
