"""How soon commands answer, and what a headless run imports.

`gpudeck --version`, `ls` and `check` against an interpreter that does nothing; torch and textual must not be loaded by
a headless run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from common import GPUDECK, Report, disk, folder_on, headless, matrix_deck, options, seconds, take_turns, write_deck

_DECK = '[deck]\ngpus = "none"\n[[task]]\nname = "t"\ncommand = ["true"]\ngpus = 0\n'
_HEAVY = frozenset({"torch", "textual", "rich", "numpy", "sklearn", "matplotlib"})


def run_ms(*command: str, cwd: str | None = None) -> Callable[[], float]:
    return lambda: seconds(lambda: subprocess.run(command, cwd=cwd, check=True, capture_output=True)) * 1e3


def of_three(command: str) -> str:
    return matrix_deck(3, f"'{command}'", deck='gpus = "sim:2"', task="")


@contextmanager
def live_deck(folder: str) -> Generator[None]:
    """An engine runs it."""
    write_deck(folder, of_three("sleep 3600"))
    engine = subprocess.Popen((*GPUDECK, "engine", "tasks.toml"), cwd=folder, stdin=subprocess.DEVNULL)
    try:
        while "no engine runs" in _told(folder, "status") or "never been started" in _told(folder, "status"):
            if engine.poll() is not None:
                raise RuntimeError(f"the engine ended with {engine.returncode}")
        yield
    finally:
        _told(folder, "stop", "--tasks")
        engine.wait()


def _told(folder: str, *words: str) -> str:
    return subprocess.run((*GPUDECK, *words), cwd=folder, capture_output=True, text=True, check=False).stderr


def commands_ms(rounds: int) -> dict[str, list[float]]:
    """`ls` of a deck with and without an engine, `check`, and a Python that does nothing beside each round of them."""
    with folder_on(disk()) as running, folder_on(disk()) as over, live_deck(running):
        write_deck(over, of_three("true"))
        headless(over, "-q")
        sides = {
            "python": run_ms(sys.executable, "-c", "pass"),
            "running": run_ms(*GPUDECK, "ls", cwd=running),
            "over": run_ms(*GPUDECK, "ls", cwd=over),
            "check": run_ms(*GPUDECK, "check", cwd=over),
        }
        take_turns(sides, 1)  # what is compiled is compiled now
        return take_turns(sides, rounds)


def imported_by_headless() -> set[str]:
    """Top-level packages that a whole headless run loads."""
    command = (sys.executable, "-X", "importtime", *GPUDECK[1:], "--headless", "tasks.toml", "-q")
    with folder_on(disk()) as folder:
        write_deck(folder, _DECK)
        said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stderr
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in said.splitlines() if "import time:" in line}


def headless_ms() -> float:
    with folder_on(disk()) as folder:
        write_deck(folder, _DECK)
        command = (*GPUDECK, "--headless", "tasks.toml", "-q")
        return seconds(lambda: subprocess.run(command, cwd=folder, check=True, capture_output=True)) * 1e3


def main() -> int:
    given = options(__doc__)
    report = Report(given)
    sides = {"python": run_ms(sys.executable, "-c", "pass"), "module": run_ms(*GPUDECK, "--version")}
    script = os.path.join(os.path.dirname(sys.executable), "gpudeck")
    if os.path.exists(script):
        sides["script"] = run_ms(script, "--version")
    sides["headless"] = headless_ms
    found = take_turns(sides, 3 if given.quick else 21)
    for key, name in (("script", "gpudeck --version"), ("module", "python -m gpudeck --version")):
        if key in found:
            report.row(f"{name}, python -c pass", found[key], found["python"], "ms", "<= 3 x")
        else:
            report.absent(f"{name}, python -c pass", "script")
    report.row("a headless run of one task, python -c pass", found["headless"], found["python"], "ms", "")
    told = commands_ms(1 if given.quick else 21)
    for key, name, budget in (
        ("running", "gpudeck ls, an engine runs, python -c pass", "<= 12 x"),
        ("over", "gpudeck ls, no engine runs, python -c pass", "<= 12 x"),
        ("check", "gpudeck check, python -c pass", "<= 9 x"),
    ):
        report.row(name, told[key], told["python"], "ms", budget)
    heavy = sorted(imported_by_headless() & _HEAVY)
    report.row("heavy packages in a headless run", len(heavy), None, " ".join(heavy), "<= 0 -")
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
