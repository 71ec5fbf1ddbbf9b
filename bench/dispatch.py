"""What dispatching a task costs: /bin/true on 4 CPU slots, journal and logs on, start-up subtracted.

In memory against `xargs -P4`, GNU parallel and task-spooler; on a disk against a plain loop that makes the same files,
runs the same wrapper and commits once a task.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable

import peers
from common import Report, disk, folder_on, headless, matrix_deck, options, seconds, take_turns, tmpfs, write_deck

from gpudeck.engine.adapters.state.lock import held_by
from gpudeck.engine.adapters.state.sockets import connect

SLOTS = 4
CLIENTS = 5
FEW = 4
"""Tasks of the run that tells the start-up."""


def per_task_ms(run_s: Callable[[int], float], count: int) -> float:
    few_s = run_s(FEW)
    return (run_s(count) - few_s) / (count - FEW) * 1e3


def ours(base: str, count: int) -> float:
    with folder_on(base) as folder:
        write_deck(folder, matrix_deck(count, '["/bin/true"]', deck=f'gpus = "none"\ncpu_slots = {SLOTS}'))
        return seconds(lambda: headless(folder, "-q"))


def watched(base: str, count: int) -> float:
    """The same with clients attached that are told of every change."""
    with folder_on(base) as folder:
        write_deck(folder, matrix_deck(count, '["/bin/true"]', deck=f'gpus = "none"\ncpu_slots = {SLOTS}'))
        over = threading.Event()
        clients = [threading.Thread(target=_watch, args=(folder, over)) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        took_s = seconds(lambda: headless(folder, "-q"))
        over.set()
        for client in clients:
            client.join()
        return took_s


def _watch(folder: str, over: threading.Event) -> None:
    """Read all that an engine sends, as soon as there is one."""
    while not over.wait(0.01):
        holder = held_by(f"{folder}/.gpudeck/tasks")
        if holder is None or not holder.address:
            continue
        with contextlib.suppress(OSError), connect(holder.address) as client:
            client.sendall(b'{"id": 1, "op": "watch"}\n')
            while client.recv(1 << 18):
                pass


def plain_loop(base: str, count: int) -> float:
    with folder_on(base) as folder:
        return seconds(lambda: peers.plain_loop(folder, count, SLOTS))


def task_spooler(base: str, count: int) -> float:
    with folder_on(base) as folder:
        return seconds(lambda: peers.task_spooler(folder, count, SLOTS))


def in_memory(report: Report, count: int, rounds: int) -> None:
    base = tmpfs() or disk()
    fewer = count // 4
    sides: dict[str, Callable[[], float]] = {
        "ours": lambda: per_task_ms(lambda n: ours(base, n), count),
        "xargs": lambda: per_task_ms(lambda n: seconds(lambda: peers.xargs(n, SLOTS)), count),
    }
    sides["watched"] = lambda: per_task_ms(lambda n: watched(base, n), count)
    if peers.has_parallel():
        sides["parallel"] = lambda: per_task_ms(lambda n: seconds(lambda: peers.parallel(n, SLOTS)), fewer)
    if peers.has_task_spooler():
        sides["spooler"] = lambda: per_task_ms(lambda n: task_spooler(base, n), fewer)
    found = take_turns(sides, rounds)
    report.row("a task in memory, xargs -P4", found["ours"], found["xargs"], "ms", "<= 3.5 x")
    report.row(f"a task in memory, {CLIENTS} clients, without", found["watched"], found["ours"], "ms", "<= 1.2 x")
    for key, name, budget in (("parallel", "GNU parallel -j4", "<= 0.7 x"), ("spooler", "task-spooler -S 4", "")):
        if key in found:
            report.row(f"a task in memory, {name}", found["ours"], found[key], "ms", budget)
        else:
            report.absent(f"a task in memory, {name}", name.split(" -")[0])


def on_disk(report: Report, count: int, rounds: int) -> None:
    base = disk()
    sides: dict[str, Callable[[], float]] = {
        "ours": lambda: per_task_ms(lambda n: ours(base, n), count),
        "plain": lambda: per_task_ms(lambda n: plain_loop(base, n), count),
    }
    found = take_turns(sides, rounds)
    report.row("a task on disk, plain loop", found["ours"], found["plain"], "ms", "<= 1.5 x")


def main() -> int:
    given = options(__doc__)
    count = 300 if given.quick else 2000
    report = Report(given)
    in_memory(report, count, given.rounds(5))
    on_disk(report, count, given.rounds(5))
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
