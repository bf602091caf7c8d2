"""A process of its own with LMCache, for what another one stored. For each line "scheme port count" that it
is given it looks up and loads so many chunks, and answers with one line: how many of them are there, and
the SHA-256 of each."""

import hashlib
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

from cache import Cache, content_of, key_of


def main():
    # What LMCache itself prints does not come among the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        scheme, port, count = line.split()
        cache = Cache(scheme, int(port))
        keys = [key_of(i) for i in range(int(count))]
        there = cache.backend.batched_contains(keys)
        loaded = cache.backend.batched_get_blocking(keys)
        digests = [hashlib.sha256(content_of(chunk)).hexdigest() for chunk in loaded]
        print(there, *digests, file=answers, flush=True)
    # Its connectors are still open, and LMCache waits for their ends.
    os._exit(0)


main()
