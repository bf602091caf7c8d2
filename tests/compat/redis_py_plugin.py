"""A pytest plugin for the tests of redis-py, loaded by redis_py_suite.py into its pytest: leaves out what
it is told to, and writes what became of each test as one JSON object a line.

KVASIR_LEFT_OUT   a file with the JSON of [[file, test]], which redis_py_suite.row_of() reads
KVASIR_OUTCOMES   the file to write: {"file", "test", "outcome", "detail"}
"""

import json
import os
import pathlib

import redis_py_suite


def name_of(item):
    """(file, test): 'test_lock.py', 'TestLock.test_release', without parameters."""
    file, _, rest = item.nodeid.removeprefix("tests/").partition("::")
    return file, rest.partition("[")[0].replace("::", ".")


class Outcomes:
    def __init__(self, path):
        self.out = open(path, "w", buffering=1)  # noqa: SIM115  (lives as long as pytest)
        self.names = {}

    def write(self, name, outcome, detail=""):
        file, test = name
        row = {"file": file, "test": test, "outcome": outcome, "detail": detail}
        print(json.dumps(row), file=self.out)

    def pytest_collection_modifyitems(self, config, items):
        rows = json.loads(pathlib.Path(os.environ["KVASIR_LEFT_OUT"]).read_text())
        rows = {tuple(row) for row in rows}
        kept, dropped = [], []
        for item in items:
            self.names[item.nodeid] = name_of(item)
            out = redis_py_suite.row_of(rows, *name_of(item)) is not None
            (dropped if out else kept).append(item)
        for item in dropped:
            self.write(name_of(item), "left out")
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept

    def pytest_runtest_logreport(self, report):
        name = self.names[report.nodeid]
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            text = crash.message if crash else str(report.longrepr)
            self.write(name, "failed", f"{report.when}: {text.strip()[-600:]}")
        elif report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            self.write(name, "skipped", str(reason))
        elif report.when == "call":
            self.write(name, "passed")

    def pytest_collectreport(self, report):
        if report.failed:
            self.write((report.nodeid.removeprefix("tests/"), "(collecting)"), "failed", str(report.longrepr)[-600:])


def pytest_configure(config):
    config.pluginmanager.register(Outcomes(os.environ["KVASIR_OUTCOMES"]))
