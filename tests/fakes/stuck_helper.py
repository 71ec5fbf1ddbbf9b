"""A log helper that hangs with its first look: `STUCK=spin` computes for ever, `STUCK=sleep` waits for ever.
It makes the file `STUCK_MARK` when it does."""

from __future__ import annotations

import json
import mmap
import os
import sys
import threading

from gpudeck.engine.logs.follow_main import GUARD, PROTOCOL


def main() -> None:
    place = mmap.mmap(int(sys.argv[1]), GUARD.size)
    print(json.dumps({"hello": PROTOCOL}), flush=True)
    followed = 0
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "follow":
            followed = request["id"]
        elif request["do"] == "look" and followed:
            open(os.environ["STUCK_MARK"], "w").close()
            GUARD.pack_into(place, 0, followed, int(os.environ["STUCK_AT"]))
            while os.environ["STUCK"] == "spin":
                pass
            threading.Event().wait()
        else:
            print(json.dumps({"seen": {}}), flush=True)


if __name__ == "__main__":
    main()
