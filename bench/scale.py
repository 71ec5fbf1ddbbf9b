"""A deck of 100,000 tasks: loading it, the engine's steps over a whole run of it, and memory.

Loading is `load` (read, validate, expand); its peers do only the least of that: tomllib parses the same file, or a loop
expands the same matrix into names, commands and hashes. Steps are those of a full simulated run with ten rounds on 8
GPUs. All is CPU time, which a loaded machine stretches less than wall time. Each part has a process of its own.
"""

from __future__ import annotations

import hashlib
import itertools
import resource
import sys
import time
import tomllib
from collections.abc import Callable
from multiprocessing import get_context
from typing import TypeVar

from common import Report, disk, folder_on, options, percentile, take_turns, write_deck
from core_step import Run

from gpudeck.engine.taskfile.load import load

ROUNDS = 10
_T = TypeVar("_T")


def matrix_text(count: int) -> str:
    numbers = ",".join(map(str, range(count // ROUNDS)))
    rounds = ",".join(map(str, range(ROUNDS)))
    return (
        '[deck]\ngpus = "sim:8"\n[[task]]\nname = "train-{r}-{i}"\nround = "{r}"\n'
        'command = ["python", "train.py", "--fold", "{r}", "--seed", "{i}"]\n'
        f"matrix.r = [{rounds}]\nmatrix.i = [{numbers}]\n"
    )


def tables_text(count: int) -> str:
    task = '[[task]]\nname = "train-{0}"\ncommand = ["python", "train.py", "--seed", "{0}"]\n'
    return '[deck]\ngpus = "sim:8"\n' + "".join(task.replace("{0}", str(number)) for number in range(count))


def in_own_process(part: Callable[[str], _T], path: str) -> _T:
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(part, (path,))


def _timer(part: Callable[[str], float], path: str) -> Callable[[], float]:
    return lambda: in_own_process(part, path)


def load_s(path: str) -> float:
    before = time.process_time()
    load(path)
    return time.process_time() - before


def parse_s(path: str) -> float:
    before = time.process_time()
    with open(path, "rb") as file:
        tomllib.load(file)
    return time.process_time() - before


def expand_s(path: str) -> float:
    before = time.process_time()
    with open(path, "rb") as file:
        entry = tomllib.load(file)["task"][0]
    made: list[tuple[str, tuple[str, ...], str]] = []
    for values in itertools.product(*entry["matrix"].values()):
        names = dict(zip(entry["matrix"], values, strict=True))
        command = tuple(word.format_map(names) for word in entry["command"])
        fingerprint = hashlib.blake2s("\0".join(command).encode()).hexdigest()
        made.append((entry["name"].format_map(names), command, fingerprint))
    return time.process_time() - before


def run(path: str) -> tuple[list[float], float]:
    """Microseconds of the steps of a whole run, and the most memory in MB."""
    whole = Run(load(path))
    whole.to_its_end()
    return whole.took_us, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def main() -> int:
    given = options(__doc__)
    report = Report(given)
    count = 10_000 if given.quick else 100_000
    with folder_on(disk()) as folder:
        forms: tuple[tuple[str, str, Callable[[str], float], str], ...] = (
            ("one matrix, plain expansion", matrix_text(count), expand_s, "<= 1.5 s" if given.quick else "<= 6 s"),
            ("a table each, tomllib", tables_text(count), parse_s, "<= 12 s"),
        )
        for name, text, peer, budget in forms:
            path = write_deck(folder, text)
            sides = {"ours": _timer(load_s, path), "peer": _timer(peer, path)}
            found = take_turns(sides, given.rounds(3))
            report.row(f"load {count} tasks, {name}", found["ours"], found["peer"], "s", budget)
        taken_us, most_mb = in_own_process(run, write_deck(folder, matrix_text(count)))
    report.row(f"engine step p50, {len(taken_us)} steps", percentile(taken_us, 50), None, "us", "")
    report.row(f"engine step p99, {count} tasks", percentile(taken_us, 99), None, "us", "<= 150 us")
    report.row(f"engine step max, {count} tasks", max(taken_us) / 1e3, None, "ms", f"<= {count // 100} ms")
    report.row(f"memory, {count} tasks loaded and run", most_mb, None, "MB", "<= 500 MB")
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
