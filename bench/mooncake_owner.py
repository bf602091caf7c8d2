"""Owns the memory segment of a Mooncake Store, until it is ended: mooncake_owner.py PORT MIB MASTER."""

import sys
import time

from mooncake.store import MooncakeDistributedStore


def main() -> int:
    port, segment_mib, master = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    store = MooncakeDistributedStore()
    status = store.setup(
        f"127.0.0.1:{port}", "P2PHANDSHAKE", segment_mib << 20, 16 << 20, "tcp", "", master
    )
    if status != 0:
        print(f"mooncake_owner.py: setup failed with {status}", file=sys.stderr)
        return 1
    print("ready", flush=True)
    while True:
        time.sleep(1)


if __name__ == "__main__":
    sys.exit(main())
