"""What an engine costs that has little to do: 10,000 tasks finished, 8 running, 8 GPUs sampled once a second.

CPU time and memory of the engine and of the helpers that it has started, over half a minute. The peer: an interpreter
with an empty asyncio loop that wakes once a second.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass

import psutil
from common import GPUDECK, Report, disk, folder_on, options, tmpfs, write_deck

from gpudeck.engine.adapters.journal.journal import SqliteJournal
from gpudeck.engine.adapters.state.folder import open_state_dir
from gpudeck.engine.client.attach import attach
from gpudeck.engine.client.connection import Connection
from gpudeck.engine.core.events import AttemptEnded, AttemptStarting, Fact, Outcome, RunEnded, RunStarted
from gpudeck.engine.taskfile.load import load
from gpudeck.engine.taskfile.options import RunOptions

RUNNING = 8
_EMPTY = "import asyncio\nasync def main():\n    while True: await asyncio.sleep(1)\nasyncio.run(main())"


@dataclass(frozen=True)
class Cost:
    percent: float
    """Of one core."""
    mib: float
    """Memory that is its own or shared out by halves (PSS)."""


def prepared(folder: str, finished: int) -> str:
    """A task file whose first *finished* tasks have succeeded, with the state that says so."""
    numbers, long = (",".join(map(str, range(count))) for count in (finished, RUNNING))
    text = (
        '[deck]\ngpus = "sim:8"\n'
        f'[[task]]\nname = "done-{{i}}"\ncommand = ["true", "{{i}}"]\nmatrix.i = [{numbers}]\n'
        f'[[task]]\nname = "long-{{i}}"\ncommand = ["sleep", "60{{i}}"]\nmatrix.i = [{long}]\n'
    )
    path = write_deck(folder, text)
    facts: list[Fact] = [RunStarted(1, "seed", 0.0, 1e9)]
    for number, spec in enumerate(load(path).tasks[:finished]):
        at, wall = number / 1000, 1e9 + number
        facts.append(AttemptStarting(spec.name, 1, f"{number:024x}", spec.fingerprint, ("SIM-0",), 0, 0, at, wall))
        end = AttemptEnded(spec.name, 1, Outcome("ok", 0), at, wall, 1.0, "succeeded", fingerprint=spec.fingerprint)
        facts.append(end)
    facts.append(RunEnded(1, 0.0, 1e9))
    journal = SqliteJournal.open(open_state_dir(path, ".gpudeck", "tasks").db)
    journal.submit(facts, durable=True)
    journal.close()
    return path


def cost_of(pid: int, seconds: float) -> Cost:
    """Of a process and its descendants in its own session, over some seconds."""
    before = _cpu_s(pid)
    started = time.monotonic()
    time.sleep(seconds)
    used = _cpu_s(pid) - before
    mib = sum(process.memory_full_info().pss for process in _family(pid)) / 2**20
    return Cost(100 * used / (time.monotonic() - started), mib)


def _family(pid: int) -> list[psutil.Process]:
    root = psutil.Process(pid)
    session = os.getsid(pid)
    below = []
    for process in root.children(recursive=True):
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getsid(process.pid) == session:
                below.append(process)
    return [root, *below]


def _cpu_s(pid: int) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in _family(pid))


def ours(folder: str, finished: int, seconds: float) -> Cost:
    path = prepared(folder, finished)
    engine = subprocess.Popen((*GPUDECK, "engine", path), cwd=folder, stdin=subprocess.DEVNULL, start_new_session=True)
    client = _running(path, engine)
    try:
        client.close()
        return cost_of(engine.pid, seconds)
    finally:
        last = attach(path, RunOptions())
        if last is not None:
            last.request("stop", tasks=True, now=True)
        engine.wait()


def _running(path: str, engine: subprocess.Popen[bytes]) -> Connection:
    while (client := attach(path, RunOptions())) is None:
        if engine.poll() is not None:
            raise RuntimeError(f"the engine ended with {engine.returncode}")
        time.sleep(0.02)
    client.watch()
    for _ in client.messages():
        if client.picture is not None and client.picture.head.counts.running == RUNNING:
            break
    return client


def peer(seconds: float) -> Cost:
    process = subprocess.Popen((sys.executable, "-c", _EMPTY), start_new_session=True)
    try:
        time.sleep(1)
        return cost_of(process.pid, seconds)
    finally:
        process.kill()
        process.wait()


def main() -> int:
    given = options(__doc__)
    report = Report(given)
    finished, seconds = (1_000, 5.0) if given.quick else (10_000, 30.0)
    with folder_on(tmpfs() or disk()) as folder:
        engine, empty = ours(folder, finished, seconds), peer(seconds)
    report.row("idle engine, share of a core", engine.percent, empty.percent or None, "%", "<= 1.5 %")
    report.row("idle engine, memory", engine.mib, empty.mib, "MiB", "<= 80 MiB")
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
