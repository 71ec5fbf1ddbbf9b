"""What the engine is measured against: other tools, and loops that do the same with nothing around it."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable

from gpudeck.engine.adapters.processes.wrapper import Spawner
from gpudeck.engine.ports import StartOrder


def xargs(count: int, slots: int) -> None:
    _feed(("xargs", f"-P{slots}", "-n1", "/bin/true"), count)


def parallel(count: int, slots: int) -> None:
    _feed(("parallel", f"-j{slots}", "/bin/true"), count)


def has_parallel() -> bool:
    """GNU parallel, not the program of the same name in moreutils."""
    if shutil.which("parallel") is None:
        return False
    said = subprocess.run(("parallel", "--version"), capture_output=True, text=True, check=False).stdout
    return said.startswith("GNU parallel")


def has_task_spooler() -> bool:
    return shutil.which("tsp") is not None


NVITOP_REMEDY = "pip install nvitop (anywhere on PATH)"


def nvitop() -> str | None:
    """Its path; it needs no place in the environment that gpudeck runs in."""
    return shutil.which("nvitop")


def task_spooler(folder: str, count: int, slots: int) -> None:
    """A server of its own in *folder*; its jobs' outputs go there too."""
    env = {**os.environ, "TS_SOCKET": f"{folder}/socket", "TMPDIR": folder, "TS_MAXFINISHED": str(count)}

    def tsp(*arguments: str) -> None:
        subprocess.run(("tsp", *arguments), env=env, stdout=subprocess.DEVNULL, check=True)

    tsp("-S", str(slots))
    try:
        for _ in range(count):
            tsp("/bin/true")
        tsp("-w")
    finally:
        tsp("-K")


def _feed(command: tuple[str, ...], count: int) -> None:
    lines = "".join(f"{number}\n" for number in range(count))
    subprocess.run(command, input=lines, text=True, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def plain_loop(folder: str, count: int, slots: int) -> None:
    """The same wrapper, the same files and a durable commit for each task, and nothing else."""
    os.mkdir(f"{folder}/attempts")
    os.mkdir(f"{folder}/logs")
    db = sqlite3.connect(f"{folder}/deck.db", isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE facts (seq INTEGER PRIMARY KEY, kind TEXT, version INTEGER, body BLOB, crc INTEGER)")
    spawner = Spawner()
    running: dict[int, str] = {}
    for number in range(count):
        if len(running) == slots:
            _reap(running)
        token = f"t{number}"
        db.execute(
            "INSERT INTO facts (kind, version, body, crc) VALUES ('start', 1, ?, 0)", (json.dumps([token, 1]).encode(),)
        )
        running[_start(spawner, folder, token)] = f"{folder}/attempts/{token}"
    while running:
        _reap(running)
    spawner.close()
    db.close()


def _start(spawner: Spawner, folder: str, token: str) -> int:
    place = f"{folder}/logs/{token}"
    os.mkdir(place)
    out, err = f"{place}/attempt-1.log", f"{place}/attempt-1.err"
    env = {**os.environ, "GPUDECK_TOKEN": token}
    pid = spawner.spawn(StartOrder(token, ("/bin/true",), env, folder, out, err), f"{folder}/attempts/{token}")
    os.symlink("attempt-1.log", f"{place}/latest.log")
    os.symlink("attempt-1.err", f"{place}/latest.err")
    with open(f"{place}/attempt-1.json", "w", encoding="utf-8") as file:
        json.dump({"task": token, "command": ["/bin/true"], "cwd": folder, "log": out, "err": err}, file, indent=2)
    return pid


def _reap(running: dict[int, str]) -> None:
    pid, _ = os.waitpid(-1, 0)
    os.unlink(running.pop(pid))


def wrapper_loop(
    folder: str, argv: tuple[str, ...], slots: int, ends: int, env: Callable[[int], dict[str, str]]
) -> None:
    """waitpid and the engine's own wrapper with its record and logs: what a start costs before any engine."""
    spawner = Spawner()
    tokens = (f"t{number}" for number in range(ends))

    def start(slot: int) -> int:
        token = next(tokens)
        os.mkdir(f"{folder}/{token}")
        order = StartOrder(token, argv, env(slot), folder, f"{folder}/{token}/out", f"{folder}/{token}/err")
        return spawner.spawn(order, f"{folder}/{token}.record")

    slot_of = {start(slot): slot for slot in range(slots)}
    for number in range(ends):
        pid, _ = os.waitpid(-1, 0)
        slot = slot_of.pop(pid)
        if number < ends - slots:
            slot_of[start(slot)] = slot
    spawner.close()


def idle_processes(count: int) -> Callable[[], None]:
    """Processes that sleep until the returned call, or until this process is gone."""
    read_end, write_end = os.pipe()
    children = [subprocess.Popen(("cat",), stdin=read_end, stdout=subprocess.DEVNULL) for _ in range(count)]
    os.close(read_end)
    time.sleep(0.5)

    def end() -> None:
        for child in children:
            child.terminate()
            child.wait()
        os.close(write_end)

    return end
