#!/usr/bin/env python3
"""Runs redis-py's own tests (its source distribution, installed by utils/venv_clients.sh and never part of
this project) against servers of this build: blocking and asyncio, RESP2 and RESP3.

    tests/compat/redis_py_suite.py [--try-left-out] [FILE ...]

FILE is a file of its folder tests, such as test_pipeline.py. What is left out stands in
redis_py_left_out.txt, with the reason. With --try-left-out those tests are run, too, and one that
passes in every run is a failure: it need not be left out any more. Names in the list that redis-py does
not have are an error, so the list stays true.

Environment: KVASIR_BUILD and KVASIR_TEST_PORT as for the integration tests. Ends with a line
"redis-py: N passed, N failed, N skipped"; skipped are the tests left out, those that redis-py itself has
for other servers only, and the files where it cannot be had.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))

import kvserver
import suites

BLOCKING = [
    "test_client.py",
    "test_command_parser.py",
    "test_commands.py",
    "test_connect.py",
    "test_connection.py",
    "test_connection_pool.py",
    "test_credentials.py",
    "test_encoding.py",
    "test_keyspace_notifications.py",
    "test_lock.py",
    "test_max_connections_error.py",
    "test_monitor.py",
    "test_multiprocessing.py",
    "test_pipeline.py",
    "test_pubsub.py",
    "test_retry.py",
    "test_scripting.py",
    "test_parsers/test_errors.py",
]
ASYNCIO = [
    "test_asyncio/test_client.py",
    "test_asyncio/test_commands.py",
    "test_asyncio/test_connect.py",
    "test_asyncio/test_connection.py",
    "test_asyncio/test_connection_pool.py",
    "test_asyncio/test_credentials.py",
    "test_asyncio/test_cwe_404.py",
    "test_asyncio/test_encoding.py",
    "test_asyncio/test_keyspace_notifications.py",
    "test_asyncio/test_lock.py",
    "test_asyncio/test_monitor.py",
    "test_asyncio/test_pipeline.py",
    "test_asyncio/test_pubsub.py",
    "test_asyncio/test_retry.py",
    "test_asyncio/test_usage_counter.py",
]
# The longest first: two run at a time.
RUNS = [(files, protocol) for protocol in (2, 3) for files in (ASYNCIO, BLOCKING)]
# What is changed in the copy of the tests, and why: file, old, new ({port}: the server's), reason.
FITTINGS = (
    (
        "test_asyncio/test_connection_pool.py",
        'connection_kwargs = {"host": master_host[0]}',
        'connection_kwargs = {"host": master_host[0], "port": master_host[1]}',
        "the port that the tests are told",
    ),
    (
        "test_connection.py",
        "Connection(retry_on_timeout=True, ",
        "Connection(port={port}, retry_on_timeout=True, ",
        "likewise",
    ),
    (
        "test_connection.py",
        "redis://localhost:6379/0?",
        "redis://localhost:{port}/0?",
        "likewise",
    ),
    (
        "test_asyncio/test_connection.py",
        "Connection(retry_on_timeout=True, ",
        "Connection(port={port}, retry_on_timeout=True, ",
        "likewise",
    ),
)
RUN_LIMIT_S = 400
RUNNING = set()  # process groups, which end with this
ASYNCIO_FOLDER = "test_asyncio/"


def row_of(rows, file, test):
    """The row that leaves the test out, or None. A row of a blocking file is one of its twin in
    test_asyncio as well, and Class.* is one of the whole class."""
    for place in (file, file.removeprefix(ASYNCIO_FOLDER)):
        for name in (test, test.partition(".")[0] + ".*", "*"):
            if (place, name) in rows:
                return place, name
    return None


def prepare(work, port):
    """A copy of redis-py with its tests in the folder work."""
    venv = subprocess.run(
        [HERE.parents[1] / "utils/venv_clients.sh", "--print"], stdout=subprocess.PIPE, check=True
    )
    venv = pathlib.Path(venv.stdout.decode().strip())
    shutil.copytree(venv / "sources/redis-py", work, dirs_exist_ok=True)
    for name, old, new, _ in FITTINGS:
        suites.fit(work / "tests" / name, old, new.replace("{port}", str(port)))
    return venv / "bin/python"


def run_files(files, protocol, rows, log_path):
    """[(file, test, outcome, detail)] of one pytest against one server."""
    outcomes = []
    server = kvserver.Server(reactors=2)
    try:
        with tempfile.TemporaryDirectory(prefix="kvasir-redis-py-") as folder:
            work = pathlib.Path(folder)
            python = prepare(work, server.port)
            (work / "left_out").write_text(json.dumps(list(rows)))
            environment = dict(os.environ)
            environment["PYTHONPATH"] = str(HERE)
            environment["PYTHONDONTWRITEBYTECODE"] = "1"
            environment["KVASIR_LEFT_OUT"] = str(work / "left_out")
            environment["KVASIR_OUTCOMES"] = str(work / "outcomes")
            command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
            command += ["-p", "redis_py_plugin", "--tb=native", f"--timeout={60 * kvserver.SLOW}"]
            command += ["--redis-url", f"redis://localhost:{server.port}/0"]
            command += ["--protocol", str(protocol), "--durations=15"]
            command += [f"tests/{file}" for file in files]
            ended = run_limited(command, work, environment, log_path)
            lines = (work / "outcomes").read_text().splitlines()
        for row in map(json.loads, lines):
            outcomes.append((row["file"], row["test"], row["outcome"], row["detail"]))
        if ended not in (0, 1):
            outcomes.append((files[0], "(all)", "failed", f"pytest ended with {ended}"))
    finally:
        try:
            server.stop()
        except AssertionError as reason:
            outcomes.append((files[0], "(the server)", "failed", str(reason)))
    return outcomes


def run_limited(command, folder, environment, log_path):
    """The exit status of the command, or 'stopped'; ends what it started."""
    with (
        open(log_path, "wb") as log,
        subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        RUNNING.add(process.pid)
        try:
            return process.wait(RUN_LIMIT_S * kvserver.SLOW)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return "status unknown: it took too long"
        finally:
            RUNNING.discard(process.pid)


def report(outcomes, rows, options):
    """Says what became of each file; (passed, failed, skipped)."""
    counts = collections.defaultdict(collections.Counter)
    met = collections.defaultdict(set)
    for protocol, file, test, outcome, detail in outcomes:
        row = row_of(rows, file, test)
        met[row].add(outcome)
        if outcome == "failed" and row is None:
            print(f"FAILED {file} | {test} with RESP{protocol}\n    {detail[-400:]}")
        elif outcome == "failed":
            outcome = "left out"
        counts[file][outcome] += 1
    for file, test in rows:
        if (file, test) not in met and not options.files:
            counts[file]["failed"] += 1
            print(f"FAILED redis_py_left_out.txt names what redis-py does not have: {file} | {test}")
        elif options.try_left_out and met[file, test] == {"passed"}:
            counts[file]["failed"] += 1
            print(f"FAILED passes though left out: {file} | {test}")
    for file in sorted(counts):
        row = counts[file]
        print(
            f"{'FAILED' if row['failed'] else 'ok'} redis-py {file}: {row['passed']} passed, "
            f"{row['failed']} failed, {row['left out']} left out, "
            f"{row['skipped']} for other servers only"
        )
    total = sum(counts.values(), collections.Counter())
    return total["passed"], total["failed"], total["left out"] + total["skipped"]


def run(options):
    """Runs the files and says what came of them; the exit status."""
    rows = suites.read_left_out(HERE / "redis_py_left_out.txt")
    logs = kvserver.BUILD / "clients"
    logs.mkdir(parents=True, exist_ok=True)
    jobs = []
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:

        def end(number, frame):
            pool.shutdown(wait=False, cancel_futures=True)
            for group in list(RUNNING):
                os.killpg(group, signal.SIGKILL)
            sys.exit(128 + number)

        signal.signal(signal.SIGTERM, end)
        for number, (files, protocol) in enumerate(RUNS):
            chosen = [file for file in files if not options.files or file in options.files]
            if chosen:
                excluded = {} if options.try_left_out else rows
                log = logs / f"redis-py-{number}.log"
                jobs.append((protocol, pool.submit(run_files, chosen, protocol, excluded, log)))
    outcomes = [(protocol, *row) for protocol, job in jobs for row in job.result()]
    passed, failed, skipped = report(outcomes, rows, options)
    print(f"redis-py: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--try-left-out", action="store_true")
    parser.add_argument("files", nargs="*", metavar="FILE")
    options = parser.parse_args()
    known = BLOCKING + ASYNCIO
    for file in options.files:
        if file not in known:
            parser.error(f"{file} is none of {' '.join(known)}")
    if subprocess.run([HERE.parents[1] / "utils/venv_clients.sh"], check=False).returncode:
        files = options.files or known
        for file in files:
            print(f"SKIPPED redis-py {file}: it cannot be installed here")
        print(f"redis-py: 0 passed, 0 failed, {len(files)} skipped")
        return 0
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
