"""The screen with 10,000 tasks of which 20 change a second, 8 GPUs read once a second, a log that grows by 5 MB/s.

A key is `j` or `k`: the cursor goes to and fro between two tasks that both log so fast, and what they log is shown. The
smallest Textual app stands beside it: each key goes to the one, then to the other.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

from common import Report, percentile
from screen_rig import GPUS, client, deck, name, screen, smallest
from terminal import Terminal, cpu_percents, drain, memory_mb

CHANGES_PER_S = 20
LOG_MB_PER_S = 5
_WRITERS = 2
_WRITER = f"""
import os, sys, time
if int(sys.argv[1]) % 1000 >= {_WRITERS}:
    time.sleep(100000)
line = b"step %08d loss 0.123456 lr 1.0e-04 accuracy 0.98765 gradient 1.2345 tokens/s 123456 memory 71.2G\\n"
begin, number, written = time.monotonic(), 0, 0
while True:
    block = b"".join(line % (number + i) for i in range(500))
    number += 500
    written += os.write(1, block)
    time.sleep(max(0, begin + written / {LOG_MB_PER_S}e6 - time.monotonic()))
"""
_PAUSE_S = 0.13
"""Between two keys; no divisor of a second, so that keys meet the GPUs' readings at any moment."""


class Changes(threading.Thread):
    """Holds and releases tasks that are queued, one in four of them in sight."""

    def __init__(self, folder: str, count: int) -> None:
        super().__init__(daemon=True)
        self._folder = folder
        self._names = [name(GPUS + k // 4 % 8 if k % 4 == 0 else count // 2 + k) for k in range(min(1000, count // 2))]
        self.done = 0
        self.stop = threading.Event()

    def run(self) -> None:
        began = time.monotonic()
        with client(self._folder) as connection:
            while not self.stop.wait(max(0.0, began + self.done / CHANGES_PER_S - time.monotonic())):
                turn, place = divmod(self.done, len(self._names))
                act = "release" if (turn + place // 32) % 2 else "hold"
                connection.request(act, tasks=[self._names[place]])
                self.done += 1


def under_load(report: Report, count: int, keys: int, seconds: float) -> float:
    """*seconds*: how long CPU time is measured. Returns how many ms the screen took to leave."""
    command = json.dumps([sys.executable, "-c", _WRITER, "{n}"])
    with deck(count, command) as folder:
        terminal = screen(folder)
        terminal.until(name(0))
        terminal.until("loss 0.123456")
        changes = Changes(folder, count)
        changes.start()
        terminal.drain(5)
        log = f"{folder}/logs/{name(0)}/attempt-1.log"
        done, size, began = changes.done, os.path.getsize(log), time.monotonic()
        cpu = cpu_percents([[terminal.pid]], lambda: terminal.drain(seconds))[0]
        took = time.monotonic() - began
        rates = (changes.done - done) / took, (os.path.getsize(log) - size) / took / 1e6
        ours_ms, peer_ms = _keys(terminal, smallest(folder), keys)
        memory = memory_mb(terminal)
        changes.stop.set()
        changes.join()
        leave_ms = terminal.quit() * 1e3
    what = f"{count:,} tasks"
    report.row("the load: changes", rates[0], None, "/s", f">= {0.95 * CHANGES_PER_S} /s")
    report.row("the load: a log", rates[1], None, "MB/s", f">= {0.95 * LOG_MB_PER_S} MB/s")
    for percent, budget in ((50, ""), (95, "<= 50 ms"), (100, "")):
        label = "longest" if percent == 100 else f"p{percent}"
        mine, theirs = percentile(ours_ms, percent), percentile(peer_ms, percent)
        report.row(f"a key, {what}, {label}; smallest app", mine, theirs, "ms", budget)
    report.row(f"CPU, {what}", cpu, None, "%", "<= 15 %")
    report.row(f"memory, {what}", memory, None, "MB", "<= 130 MB")
    return leave_ms


def _keys(terminal: Terminal, peer: Terminal, count: int) -> tuple[list[float], list[float]]:
    """Milliseconds until a key is drawn, here and there."""
    ours_ms: list[float] = []
    peer_ms: list[float] = []
    peer.until(name(0))
    peer.drain(0.5)
    for number in range(1, count + 1):
        key, place = ("j", 1) if number % 2 else ("k", 0)
        ours_ms.append(_until_ms(terminal, key, name(place)))
        drain((terminal, peer), _PAUSE_S)
        peer_ms.append(_until_ms(peer, key, f"pressed-{number}."))
        drain((terminal, peer), _PAUSE_S)
    peer.quit()
    return ours_ms, peer_ms


def _until_ms(terminal: Terminal, key: str, text: str) -> float:
    pressed = terminal.press(key)
    return (terminal.until(text) - pressed) * 1e3
