"""A training on two ranks from its start to its first step: started by gpudeck, and by torchrun alone.

Both run the same torchrun with the same script on the CPU. Ours begins when the engine decides to start the task, so
that its own share is in it: record, wrapper, logs, a shell before each rank, and an engine that follows the task.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import datetime

from common import GPUDECK, Report, disk, folder_on, options, take_turns

RANKS = 2
SCRIPT = """\
import os, time
import torch, torch.distributed as dist

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
if dist.get_rank() == 0:
    with open("first-step", "w") as file:
        file.write(repr(time.time()))
dist.barrier()
os._exit(0)
"""
DECK = f"""\
[deck]
gpus = "none"
[[task]]
name = "ranks"
command = ["{sys.executable}", "train.py"]
python = "{sys.executable}"
gpus = 0
nproc = {RANKS}
launch = "torchrun"
"""
PLAIN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS), "train.py")


def _first_step(folder: str) -> float:
    with open(f"{folder}/first-step", encoding="utf-8") as file:
        return float(file.read())


def ours() -> float:
    """Seconds."""
    with folder_on(disk()) as folder:
        for name, text in (("train.py", SCRIPT), ("tasks.toml", DECK)):
            with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        subprocess.run((*GPUDECK, "--headless", "tasks.toml", "-q"), cwd=folder, check=True, capture_output=True)
        with open(f"{folder}/logs/ranks/attempt-1.json", encoding="utf-8") as file:
            began = datetime.fromisoformat(json.load(file)["start"])
        return _first_step(folder) - began.timestamp()


def plain() -> float:
    with folder_on(disk()) as folder:
        with open(f"{folder}/train.py", "w", encoding="utf-8") as file:
            file.write(SCRIPT)
        began = time.time()
        # What gpudeck sets, too: without it torchrun sets the one and says so.
        env = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        subprocess.run((sys.executable, *PLAIN), cwd=folder, env=env, check=True, capture_output=True)
        return _first_step(folder) - began


def main() -> int:
    given = options(__doc__)
    report = Report(given)
    plain()  # torch's files are read from the disk once
    times = take_turns({"ours": ours, "plain": plain}, given.rounds(7))
    report.row(f"start to first step, {RANKS} ranks", times["ours"], times["plain"], "s", "<= 1.03 x")
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
