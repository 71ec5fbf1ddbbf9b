"""What it costs to follow the logs of eight running tasks: processor time of the engine and of its log helper.

Each task prints five lines a second and has a metric, a watch pattern and a silence rule; "flood": half a megabyte of
bar frames a second each.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from common import GPUDECK, Report, disk, folder_on, options, write_deck

TASKS = 8
WARM_UP_S = 4.0
_DECK = f"""
[deck]
gpus = "none"
cpu_slots = {TASKS}
[[task]]
name = "t{{n}}"
gpus = 0
command = ["python3", "-u", "print.py"]
matrix.n = {list(range(TASKS))}
metrics.loss = {{ regex = 'loss ([0-9.]+)', best = "min" }}
watch = {{ silent = "10m", pattern = "nan" }}
"""
_LINES = """
import time
for n in range(100_000):
    print(f"epoch {n // 100 + 1}/1000 step {n % 100}/100 loss 0.{n}", flush=True)
    time.sleep(0.2)
"""
_FLOOD = """
import sys, time
frames = "\\rEpoch 3/10:  42%|####      | 420/1000 [00:12<00:17,  9.70it/s, loss 0.123]" * 650
while True:
    sys.stdout.write(frames)
    sys.stdout.flush()
    time.sleep(0.1)
"""


def ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return int(fields[11]) + int(fields[12])


def percent(script: str, seconds: float) -> float:
    """Of one core, engine and helper together."""
    with folder_on(disk()) as folder:
        write_deck(folder, _DECK)
        (Path(folder) / "print.py").write_text(script)
        command = (*GPUDECK, "--headless", "tasks.toml", "-q", "--check-interval", "0")
        engine = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
        try:
            time.sleep(WARM_UP_S)
            children = Path(f"/proc/{engine.pid}/task/{engine.pid}/children").read_text().split()
            helpers = [int(pid) for pid in children if b"follow_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
            before, begin = sum(map(ticks, (engine.pid, *helpers))), time.monotonic()
            time.sleep(seconds)
            spent = sum(map(ticks, (engine.pid, *helpers))) - before
            return 100 * spent / os.sysconf("SC_CLK_TCK") / (time.monotonic() - begin)
        finally:
            engine.terminate()
            engine.wait()


def main() -> int:
    given = options(__doc__)
    report = Report(given)
    seconds = 5.0 if given.quick else 30.0
    report.row(f"following {TASKS} tasks", [percent(_LINES, seconds)], None, "%", "<= 1.5 %")
    report.row(f"following {TASKS} floods", [percent(_FLOOD, seconds)], None, "%", "")
    return report.exit_code()


if __name__ == "__main__":
    raise SystemExit(main())
