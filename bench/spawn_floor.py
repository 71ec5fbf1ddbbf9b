"""What a task costs the engine's thread: `LocalLauncher` against bare `posix_spawn` and `subprocess.Popen`.

Prints CPU time of the calling thread and wall time per task, median of the rounds; the wrapper's own processes are not
counted. Records and logs lie in /dev/shm where there is one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable

from gpudeck.engine.adapters.claims.claims import Claims
from gpudeck.engine.adapters.processes.launcher import LocalLauncher, become_subreaper
from gpudeck.engine.core.inputs import Input, TreeGone
from gpudeck.engine.ports import StartOrder


def bare_spawn() -> None:
    pid = os.posix_spawn("/bin/sh", ("sh", "-c", ":"), os.environ, setsid=True)
    os.waitpid(pid, 0)


def bare_popen() -> None:
    subprocess.run(("sh", "-c", ":"), start_new_session=True, check=True)


def timed(call: Callable[[], object], times: int) -> tuple[float, float]:
    """CPU and wall milliseconds per call."""
    cpu, wall = time.thread_time(), time.perf_counter()
    for _ in range(times):
        call()
    return (time.thread_time() - cpu) * 1e3 / times, (time.perf_counter() - wall) * 1e3 / times


async def launched(folder: str, times: int, slots: int) -> tuple[float, float, float]:
    """CPU and wall milliseconds per task through the launcher, *slots* at once, and CPU of its `start` alone."""
    done = asyncio.Event()
    left = times
    running = 0
    start_s = 0.0

    def order(number: int) -> StartOrder:
        token = f"t{number}"
        env = {**os.environ, "GPUDECK_TOKEN": token}
        return StartOrder(token, ("true",), env, "/", f"{folder}/{number}.log", f"{folder}/{number}.err")

    def refill() -> None:
        nonlocal left, running, start_s
        while left and running < slots:
            left, running = left - 1, running + 1
            what = order(left)
            before = time.thread_time()
            launcher.start(what)
            start_s += time.thread_time() - before

    def sink(item: Input) -> None:
        nonlocal running
        if isinstance(item, TreeGone):
            running -= 1
            launcher.forget(item.token)
            refill()
            if not running:
                done.set()

    claims = Claims("bench", folder, f"{folder}/locks", print)
    loop = asyncio.get_running_loop()
    launcher = LocalLauncher(f"{folder}/attempts", sink, loop, claims=claims, look=lambda _: ())
    cpu, wall = time.thread_time(), time.perf_counter()
    refill()
    await done.wait()
    cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
    launcher.close()
    return cpu * 1e3 / times, wall * 1e3 / times, start_s * 1e3 / times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slots", type=int, default=4)
    options = parser.parse_args()
    become_subreaper()
    for name, call in (("posix_spawn", bare_spawn), ("Popen", bare_popen)):
        rounds = [timed(call, options.tasks) for _ in range(options.rounds)]
        cpu, wall = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"{name:12s} cpu {cpu:.3f} ms  wall {wall:.3f} ms a task, one at a time")
    rounds = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
            rounds.append(asyncio.run(launched(folder, options.tasks, options.slots)))
    cpu, wall, start = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(f"{'launcher':12s} cpu {cpu:.3f} ms (start {start:.3f})  wall {wall:.3f} ms a task, {options.slots} at once")


if __name__ == "__main__":
    main()
