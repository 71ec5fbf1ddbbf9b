"""What clients wait for: the first picture of a live deck of 10,000 tasks, and how long a change takes to reach them.

A change is asked for by one client (`hold`, a fact that is written to disk first) and seen by another; the clock runs
from before the request is sent. The peer: the same bytes between two processes over a Unix socket, without an engine.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

from common import GPUDECK, Report, disk, folder_on, matrix_deck, options, percentile, tmpfs, write_deck

from gpudeck.engine.client.attach import attach
from gpudeck.engine.client.connection import Connection
from gpudeck.engine.protocol.wire import Delta, Tasks, encode
from gpudeck.engine.taskfile.options import RunOptions


@contextmanager
def live_deck(folder: str, tasks: int) -> Generator[str]:
    """A detached engine with one long task running and the rest queued."""
    path = write_deck(folder, matrix_deck(tasks, '["sleep", "{i}000"]', deck='gpus = "sim:1"', task=""))
    engine = subprocess.Popen((*GPUDECK, "engine", path), cwd=folder, stdin=subprocess.DEVNULL)
    try:
        while (found := attach(path, RunOptions())) is None:
            if engine.poll() is not None:
                raise RuntimeError(f"the engine ended with {engine.returncode}")
            time.sleep(0.02)
        found.close()
        yield path
    finally:
        with _attached(path) as last:
            last.request("stop", tasks=True, now=True)
        engine.wait()


def _attached(path: str) -> Connection:
    connection = attach(path, RunOptions())
    if connection is None:
        raise RuntimeError("no engine")
    return connection


def first_picture_ms(path: str) -> tuple[float, int]:
    """From connecting to a whole picture; and its bytes."""
    before = time.perf_counter()
    with _attached(path) as client:
        picture = client.wait_for_picture()
        took_ms = (time.perf_counter() - before) * 1e3
    return took_ms, len(encode(Tasks(list(picture.rows.values()))))


def same_bytes_ms(count: int) -> float:
    """*count* bytes through a Unix socket from another process."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        theirs.sendall(b"x" * count)
        os._exit(0)
    before, left = time.perf_counter(), count
    while left:
        left -= len(ours.recv(1 << 18))
    took_ms = (time.perf_counter() - before) * 1e3
    os.waitpid(child, 0)
    ours.close()
    theirs.close()
    return took_ms


def change_ms(path: str, times: int) -> list[float]:
    """From a request to the moment at which another client sees what it led to."""
    found: list[float] = []
    with _attached(path) as asks, _attached(path) as looks:
        picture = looks.wait_for_picture()
        name = picture.rows[len(picture.rows) - 1].name
        for number in range(times):
            held = number % 2 == 0
            before = time.perf_counter()
            asks.request("hold" if held else "release", tasks=[name])
            _until_row(looks, name, held)
            found.append((time.perf_counter() - before) * 1e3)
    return found


def _until_row(client: Connection, name: str, held: bool) -> None:
    for message in client.messages():
        if isinstance(message, Delta) and any(row.name == name and row.held == held for row in message.rows):
            return


def echo_ms(times: int) -> list[float]:
    """A short line to another process and back over a Unix socket."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        while data := theirs.recv(4096):
            theirs.sendall(data)
        os._exit(0)
    theirs.close()
    found: list[float] = []
    for _ in range(times):
        before = time.perf_counter()
        ours.sendall(b"x" * 300 + b"\n")
        select.select([ours], [], [])
        ours.recv(4096)
        found.append((time.perf_counter() - before) * 1e3)
    ours.close()
    os.waitpid(child, 0)
    return found


def main() -> int:
    given = options(__doc__)
    report = Report(given)
    tasks, changes = (1_000, 40) if given.quick else (10_000, 300)
    with folder_on(tmpfs() or disk()) as folder, live_deck(folder, tasks) as path:
        shown = [first_picture_ms(path) for _ in range(given.rounds(5))]
        report.row(
            f"first picture of {tasks} tasks",
            [took_ms for took_ms, _ in shown],
            [same_bytes_ms(count) for _, count in shown],
            "ms",
            "<= 150 ms",
        )
        took = change_ms(path, changes)
        report.row(
            "a change reaches a client, p95", percentile(took, 95), percentile(echo_ms(changes), 95), "ms", "<= 10 ms"
        )
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
