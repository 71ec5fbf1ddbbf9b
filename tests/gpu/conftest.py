"""The session of `make gpu`: the machine as it is found, the time that is left, the record and the summary."""

from __future__ import annotations

import datetime
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpudeck import __version__
from tests.e2e.decks import Deck, caller_environment
from tests.gpu import record as records
from tests.gpu.checks import Check
from tests.gpu.machine import Machine, Told, box_told, is_idle

LIMIT_S = 460.0
"""Leaves time of the eight minutes to end what a check that was cut off has left."""
_TORCH = """import json, torch
print(json.dumps([torch.__version__, torch.version.cuda, torch.cuda.is_available()]))"""


@dataclass
class Session:
    machine: Machine
    record: records.Record
    begun: float = field(default_factory=time.monotonic)

    def ask(self, check: Check) -> records.Lines:
        """Whatever comes of it is in the record, an error and the end of the time too."""
        lines = self.record.subject(check.__name__.replace("_", " "))
        try:
            with self._in_time(), lines.unless_impossible("all of it"), self.machine.stack:
                check(self.machine, lines)
        except Exception as error:
            lines.add("it could be asked to the end", False, f"{type(error).__name__}: {error}")
            raise
        return lines

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        def over(*_: object) -> None:
            raise TimeoutError(f"{LIMIT_S:g} s were over")

        left_s = self.begun + LIMIT_S - time.monotonic()
        if left_s < 1:
            over()
        before = signal.signal(signal.SIGALRM, over)
        try:
            signal.setitimer(signal.ITIMER_REAL, left_s)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


_BOX, _SESSION = pytest.StashKey[Told](), pytest.StashKey[Session]()


def pytest_runtestloop(session: pytest.Session) -> None:
    """Without a card nothing is asked, and one line says so."""
    wanted = any(item.get_closest_marker("gpu") for item in session.items)
    if not wanted or session.config.option.collectonly:
        return
    deck = Deck(Path.cwd())
    _prepare(deck)
    box = session.config.stash[_BOX] = box_told(deck)
    if why := refusal(box, os.environ.get("CUDA_VISIBLE_DEVICES")):
        raise pytest.UsageError(why)


@pytest.fixture(scope="session")
def gpu_session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Session:
    python, torch = _python_with_torch()
    box = request.config.stash[_BOX]
    cards = idle(box, os.environ.get("CUDA_VISIBLE_DEVICES"))
    machine = Machine(tmp_path_factory.mktemp("gpu"), python, torch, cards, _prepare)
    session = Session(machine, records.Record(_about(box, cards, python, torch)))
    request.config.stash[_SESSION] = session
    return session


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    session = config.stash.get(_SESSION, None)
    if session is None:
        return
    session.record.about |= {"took": f"{time.monotonic() - session.begun:.0f} s"}
    terminalreporter.section("on this machine")
    for line in session.record.lines:
        terminalreporter.write_line(f"{line.verdict:17}  {line.subject}: {line.asked}: {' '.join(line.seen.split())}")
    terminalreporter.write_line(records.tally(session.record))
    if config.getoption("--record"):
        terminalreporter.write_line(f"recorded: {records.write(session.record)}")


def _prepare(deck: Deck) -> None:
    """True processes of this checkout, with the timers that users have."""
    deck.prefix = (sys.executable, "-P", "-m", "gpudeck")


def idle(box: Told, visible: str | None) -> list[Told]:
    """The cards that the caller may use and nobody uses, whole ones: the others are somebody's."""
    named = None if visible is None else visible.split(",")
    mine = [row for row in box["gpus"] if named is None or {str(row["index"]), row["uuid"]} & {*named}]
    return [row for row in mine if not row["mig"] and is_idle(row)]


def refusal(box: Told, visible: str | None) -> str:
    """Why nothing can be asked here, in a line."""
    if not box["gpus"]:
        return f"no NVIDIA card here to ask: {box['error'] or 'no driver, no device'}"
    if idle(box, visible):
        return ""
    rows = [f"GPU {row['index']} ({row['used_mib']} MiB, {len(row['processes'])} processes)" for row in box["gpus"]]
    among = "" if visible is None else f" among CUDA_VISIBLE_DEVICES={visible}"
    return f"no whole NVIDIA card is idle here{among}: {', '.join(rows)}"


def _python_with_torch() -> tuple[str, str]:
    """TORCH_PYTHON, the one that runs the tests, or the one on PATH; "" and why, where none has a torch for cards."""
    tried: list[str] = []
    for python in (os.environ.get("TORCH_PYTHON"), sys.executable, shutil.which("python3")):
        if python is None:
            continue
        command = [python, "-c", _TORCH]
        done = subprocess.run(command, env=caller_environment(), capture_output=True, text=True, check=False)
        if done.returncode:
            tried.append(f"{python}: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
            continue
        version, cuda, available = json.loads(done.stdout.splitlines()[-1])
        if available:
            return python, f"{version}, CUDA {cuda}"
        tried.append(f"{python}: torch {version} sees no card")
    return "", f"no Python whose torch computes on a card ({'; '.join(dict.fromkeys(tried))}); TORCH_PYTHON names one"


def _about(box: Told, cards: list[Told], python: str, torch: str) -> dict[str, str]:
    names = [card["name"] for card in cards]
    return {
        "date": datetime.date.today().isoformat(), "driver": box["driver"] or "unknown", "card": names[0],
        "cards": ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names)), "torch": torch,
        "python": f"{platform.python_version()} for gpudeck {__version__}, {python or 'none'} for torch",
        "kernel": platform.release(), "root": "yes" if os.geteuid() == 0 else "no",
    }  # fmt: skip
