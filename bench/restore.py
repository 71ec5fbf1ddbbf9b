"""How soon an engine is back: a journal of 100,000 facts is folded, and 64 running attempts are adopted.

The peer of the first: reading the same rows with sqlite3 and decoding them, which says what the storage costs. The
peer of the second: opening a pidfd of each process and reading its /proc/PID/stat, the least that adoption takes.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from common import Report, disk, folder_on, options, seconds, tmpfs

from gpudeck.engine.adapters.claims.claims import Claims
from gpudeck.engine.adapters.journal.journal import SqliteJournal
from gpudeck.engine.adapters.processes import proc
from gpudeck.engine.adapters.processes.launcher import LocalLauncher, become_subreaper
from gpudeck.engine.core.apply import replay
from gpudeck.engine.core.build import build
from gpudeck.engine.core.devices import Gpu
from gpudeck.engine.core.events import AttemptEnded, AttemptRunning, AttemptStarting, Fact, Outcome, RunStarted
from gpudeck.engine.core.spec import DeckFile, DeckSettings, TaskSpec, Work
from gpudeck.engine.ports import Known, StartOrder

ATTEMPTS = 64


def deck_file(tasks: int) -> DeckFile:
    specs = tuple(TaskSpec(f"t-{i}", "t-{i}", i, Work(("true",)), f"{i:032x}") for i in range(tasks))
    return DeckFile("/deck/tasks.toml", "tasks", DeckSettings(), specs)


def history(file: DeckFile) -> list[Fact]:
    """Three facts for each task, as a run leaves them."""
    facts: list[Fact] = [RunStarted(1, "seed", 0.0, 1e9)]
    for number, spec in enumerate(file.tasks):
        at, wall = float(number), 1e9 + number
        facts.append(AttemptStarting(spec.name, 1, f"{number:024x}", spec.fingerprint, ("GPU-0",), 0, 0, at, wall))
        facts.append(AttemptRunning(spec.name, 1, 1000 + number, 5))
        end = AttemptEnded(spec.name, 1, Outcome("ok", 0), at, wall, 1.0, "succeeded", fingerprint=spec.fingerprint)
        facts.append(end)
    return facts


def restore_s(file: DeckFile, path: str) -> float:
    gpu = Gpu("GPU-0", 0, 0, total_mib=1024)

    def restore() -> None:
        journal = SqliteJournal.open(path)
        replay(build(file, gpus=[gpu], cores=2), journal.load())
        journal.close()

    return seconds(restore)


def plain_read_s(path: str) -> float:
    def read() -> None:
        db = sqlite3.connect(path)
        for (body,) in db.execute("SELECT body FROM facts ORDER BY seq"):
            msgspec.msgpack.decode(body)
        db.close()

    return seconds(read)


def written(file: DeckFile, path: str) -> None:
    journal = SqliteJournal.open(path)
    facts = history(file)
    for start in range(0, len(facts), 1000):
        journal.submit(facts[start : start + 1000], durable=False)
    journal.close()


def launcher(folder: str) -> LocalLauncher:
    claims = Claims("bench", folder, f"{folder}/locks", print)
    loop = asyncio.get_running_loop()
    return LocalLauncher(f"{folder}/attempts", lambda _: None, loop, claims=claims, look=lambda _: ())


async def adoption_s(folder: str) -> tuple[float, float]:
    """Seconds to adopt attempts of another engine, and to look at the same processes by hand."""
    first = launcher(folder)
    known: list[Known] = []
    for number in range(ATTEMPTS):
        token = f"t{number}"
        log = f"{folder}/{number}.log"
        env = {**os.environ, "GPUDECK_TOKEN": token}
        pid, ticks = first.start(StartOrder(token, ("sleep", "600"), env, "/", log, log))
        known.append(Known(token, pid, ticks))
    while any(not Path(f"{folder}/attempts/{item.token}").exists() for item in known):
        await asyncio.sleep(0.01)
    first.close()
    before = time.perf_counter()
    second = launcher(folder)
    fates = second.recover(known)
    took_s = time.perf_counter() - before
    if set(fates.values()) != {"adopted"}:
        raise RuntimeError(f"not all were adopted: {fates}")
    before = time.perf_counter()
    for item in known:
        os.close(os.pidfd_open(item.pid))
        proc.stat(item.pid)
    peer_s = time.perf_counter() - before
    second.close()
    for item in known:
        os.killpg(item.pid, 9)
        os.waitpid(item.pid, 0)
    return took_s, peer_s


def main() -> int:
    given = options(__doc__)
    report = Report(given)
    facts = 10_000 if given.quick else 100_000
    file = deck_file(facts // 3)
    with folder_on(tmpfs() or disk()) as folder:
        path = f"{folder}/deck.db"
        written(file, path)
        rounds = given.rounds(3)
        ours = [restore_s(file, path) for _ in range(rounds)]
        peer = [plain_read_s(path) for _ in range(rounds)]
        report.row(f"restore {facts} facts", ours, peer, "s", "<= 2 s")
    become_subreaper()
    with tempfile.TemporaryDirectory(dir=tmpfs() or disk()) as folder:
        took_s, peer_s = asyncio.run(adoption_s(folder))
        report.row(f"adopt {ATTEMPTS} attempts", took_s * 1e3, peer_s * 1e3, "ms", "<= 300 ms")
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
