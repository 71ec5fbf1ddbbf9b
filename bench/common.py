"""What the benchmarks share: a line a case, rounds that take turns, folders, the engine as a command."""

from __future__ import annotations

import argparse
import contextlib
import operator
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # users' programs are not compiled anew at each start
GPUDECK = (sys.executable, "-m", "gpudeck")
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge}


@dataclass(frozen=True, slots=True)
class Options:
    quick: bool
    strict: bool

    def rounds(self, usual: int) -> int:
        return 1 if self.quick else usual


def options(doc: str | None) -> Options:
    """The command line that every benchmark has."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, smaller numbers: does it still work?")
    parser.add_argument("--strict", action="store_true", help="exit code 1 on a MISS")
    given = parser.parse_args()
    return Options(given.quick, given.strict)


class Report:
    """Prints `case  ours  peer  ratio  budget  ok|MISS`, a line a case."""

    def __init__(self, options: Options) -> None:
        self._strict = options.strict
        self._missed = False
        self._line("case", "ours", "peer", "ratio", "budget", "")

    def row(
        self, case: str, ours: Sequence[float] | float, peer: Sequence[float] | float | None, unit: str, budget: str
    ) -> None:
        """One case. *budget* is "<= 3 x" for the ratio (ours to peer), "<= 2 ms" for ours, "" for none.

        Of several rounds the medians are told; the ratio is the median of the rounds' ratios, because what disturbs a
        round disturbs both sides of it.
        """
        mine, theirs = _several(ours), _several(peer)
        ratios = [a / b for a, b in zip(mine, theirs, strict=True)] if theirs and all(theirs) else []
        ratio = statistics.median(ratios) if ratios else None
        verdict = self._verdict(statistics.median(mine), ratio, budget)
        self._line(
            case,
            f"{statistics.median(mine):.4g} {unit}",
            f"{statistics.median(theirs):.4g} {unit}" if theirs else "-",
            "-" if ratio is None else f"{ratio:.2f}",
            budget or "-",
            verdict,
        )

    def absent(self, case: str, what: str, remedy: str = "-") -> None:
        """A peer that is not installed here, and how to install it."""
        self._line(case, "-", f"{what} absent", "-", "-", remedy)

    def exit_code(self) -> int:
        return int(self._missed and self._strict)

    def _verdict(self, mine: float, ratio: float | None, budget: str) -> str:
        if not budget:
            return "-"
        sign, number, unit = budget.split()
        value = ratio if unit == "x" else mine
        good = value is not None and _COMPARE[sign](value, float(number))
        self._missed |= not good
        return "ok" if good else "MISS"

    def _line(self, case: str, ours: str, peer: str, ratio: str, budget: str, verdict: str) -> None:
        print(f"{case:46}  {ours:>12}  {peer:>12}  {ratio:>6}  {budget:>11}  {verdict}".rstrip(), flush=True)


def _several(values: Sequence[float] | float | None) -> Sequence[float]:
    if values is None:
        return ()
    return (values,) if isinstance(values, float | int) else values


def take_turns(sides: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Run each side once a round, in turns, so that a busy minute of the machine meets all of them."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        turns = list(sides.items())
        for name, side in turns if number % 2 == 0 else reversed(turns):
            found[name].append(side())
    return found


def percentile(values: Sequence[float], percent: int) -> float:
    """100 is the largest."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1] if percent < 100 else max(values)


def seconds(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    before = time.perf_counter()
    call()
    return time.perf_counter() - before


def matrix_deck(count: int, command: str, *, deck: str, task: str = "gpus = 0") -> str:
    """A task file of *count* equal tasks from one matrix."""
    numbers = ",".join(map(str, range(count)))
    return f'[deck]\n{deck}\n[[task]]\nname = "t-{{i}}"\ncommand = {command}\n{task}\nmatrix.i = [{numbers}]\n'


def write_deck(folder: str, text: str) -> str:
    path = os.path.join(folder, "tasks.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def headless(folder: str, *arguments: str, codes: Sequence[int] = (0,)) -> str:
    """Run the deck of *folder* to its end; returns what it printed. Raises RuntimeError at another exit code."""
    command = (*GPUDECK, "--headless", "tasks.toml", *arguments)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in codes:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


@contextlib.contextmanager
def folder_on(base: str) -> Generator[str]:
    """A fresh folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="gpudeck-bench-", dir=base) as folder:
        yield folder


def tmpfs() -> str | None:
    """A folder in memory, None where there is none."""
    return "/dev/shm" if os.path.isdir("/dev/shm") and _kind_of("/dev/shm") == "tmpfs" else None


def disk() -> str:
    """A folder on a disk: the temporary folder unless that is in memory, else the home."""
    for path in (tempfile.gettempdir(), "/var/tmp"):
        if os.path.isdir(path) and _kind_of(path) != "tmpfs":
            return path
    return os.path.expanduser("~")


def _kind_of(path: str) -> str:
    """The file system that holds *path*."""
    best, kind = "", ""
    real = os.path.realpath(path)
    with open("/proc/mounts", encoding="utf-8") as mounts:
        for line in mounts:
            _, where, what, *_ = line.split()
            if len(where) >= len(best) and (real + "/").startswith(where.rstrip("/") + "/"):
                best, kind = where, what
    return kind
