"""Trains until it is asked to stop, then saves: python stops.py FOLDER."""

import os
import sys
from pathlib import Path

import gpudeck.distributed as gd

folder = Path(sys.argv[1])
context = gd.init(timeout_s=60)
epoch = 0
while not gd.should_stop():
    epoch += 1
    (folder / f"pid{context.rank}").write_text(str(os.getpid()))
gd.save({"epoch": epoch}, folder / "last.pt")
(folder / f"rank{context.rank}.json").write_text(str(epoch))
