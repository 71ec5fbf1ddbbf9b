"""How soon the command answers, and what a headless run imports.

`gpudeck --version` against an interpreter that does nothing; torch and textual must not be loaded by a headless run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from common import GPUDECK, Report, disk, folder_on, options, seconds, take_turns, write_deck

_DECK = '[deck]\ngpus = "none"\n[[task]]\nname = "t"\ncommand = ["true"]\ngpus = 0\n'
_HEAVY = frozenset({"torch", "textual", "rich", "numpy", "sklearn", "matplotlib"})


def run_ms(*command: str) -> Callable[[], float]:
    return lambda: seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)) * 1e3


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
    heavy = sorted(imported_by_headless() & _HEAVY)
    report.row("heavy packages in a headless run", len(heavy), None, " ".join(heavy), "<= 0 -")
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
