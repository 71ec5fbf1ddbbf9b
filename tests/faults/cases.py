"""A deck with a task that is brought into a state and held there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.decks import Gate, until
from tests.fakes import forked
from tests.faults.books import Books, Codes
from tests.faults.ledger import Attempt, Ledger
from tests.faults.lives import Life, Lives

STATES = ("waiting", "starting", "running", "stopping", "backoff")

_DECK = """\
[deck]
gpus = "sim:1"
state_dir = "{state_dir}"
log_dir = "{log_dir}"
[defaults]
linger = "100ms"
grace = "{grace}"
retries = 1
retry_on = ["lost"]
backoff = "100ms"
"""
_TASK = """
[[task]]
name = "{name}"
command = ["sh", "work.sh", {plan}]
{keys}
"""
_PLANS = {
    "waiting": "hold; finish 0",
    "starting": "echo made >made; finish 0",
    "running": "hold; finish 0",
    "stopping": "trap '{heard}' TERM; {mischief}; hold; finish 7",
    "backoff": "test $GPUDECK_ATTEMPT = 2 || finish 3; finish 0",
}
_KEYS = {
    "waiting": 'needs = ["keeper"]',
    "starting": 'outputs = ["made"]',
    "running": 'timeout = "1h"',
    "stopping": 'timeout = "300ms"',
    "backoff": 'retries = 1\nbackoff = "1500ms"\nretry_on = ["fail"]',
}
UNTOUCHED: Mapping[str, Codes] = {
    "waiting": {"keeper": [0], "subject": [0], "next": [0]},
    "starting": {"subject": [0], "next": [0]},
    "running": {"subject": [0], "next": [0]},
    "stopping": {"subject": [7], "next": [0]},
    "backoff": {"subject": [3, 0], "next": [0]},
}
"""What becomes of the deck where the fault does no more than it must."""


@dataclass
class Case:
    """The deck of one test."""

    folder: Path
    state: str
    state_dir: str = ".gpudeck"
    log_dir: str = "logs"
    mischief: str = ":"
    """What its tasks do first."""
    heard: str = "say asked"
    """What the stopped one does at TERM."""
    grace: str = "60s"
    ledger: Ledger = field(init=False)
    lives: Lives = field(init=False)
    books: Books = field(init=False)
    gates: dict[str, Gate] = field(init=False)
    forgotten: frozenset[Attempt] = frozenset()
    """Attempts that a damaged journal knows nothing of any more."""

    def __post_init__(self) -> None:
        self.lives = Lives(self.folder)
        self.ledger = Ledger(self.folder)
        self.books = Books(self.folder, self.ledger, self.lives, self.state_dir, self.log_dir)
        self.gates = {task: Gate(self.folder / f"gate.{task}") for task in ("keeper", "subject", "next")}
        os.mkfifo(self.folder / "never")
        (self.folder / "seam").mkdir()
        self._hold(self.state == "starting")

    def write(self) -> None:
        """The task file."""
        parts = [_DECK.format_map(vars(self)), self._task("subject", _PLANS[self.state], _KEYS[self.state])]
        if self.state == "waiting":
            parts.insert(1, self._task("keeper", "hold; finish 0", 'timeout = "1h"'))
        parts.append(self._task("next", "finish 0", 'after = ["subject"]'))
        (self.folder / "tasks.toml").write_text("".join(parts))

    def _task(self, name: str, plan: str, keys: str) -> str:
        plan = plan.format(heard=self.heard, mischief=self.mischief) if "{" in plan else f"{self.mischief}; {plan}"
        return _TASK.format(name=name, plan=json.dumps(plan), keys=keys)

    # -- the engine's lives -------------------------------------------------------------------------------------------

    def start(self, *options: str, **seams: Any) -> Life:
        seams = {"hold": str(self.folder / "seam"), "wall": str(self.wall), "forks": str(self.forks), **seams}
        return self.lives.start(*options, **seams)

    def refused(self) -> tuple[int, str]:
        """A further start that comes to nothing: its exit code and what it said."""
        life = self.start(
            **forked.tuned(forked.QUICK, "engine.adapters.state.lock", **{"DeckLock.acquire.wait_s": 0.2})
        )
        code = life.finish()
        self.lives.all.remove(life)
        return code, life.said()

    @property
    def wall(self) -> Path:
        """By how many seconds the engines' wall clock is off."""
        return self.folder / "seam/wall"

    @property
    def forks(self) -> Path:
        """While it exists, engines get no processes."""
        return self.folder / "seam/forks"

    @property
    def engine(self) -> Life:
        return self.lives.last

    def reach(self) -> None:
        """Wait until the subject is in its state."""
        self.until(_REACHED[self.state], self)

    def until(self, condition: Callable[..., Any], *args: Any) -> Any:
        """Wait for a condition while the engine lives."""

        def met() -> Any:
            found = condition(*args)
            assert found or not self.engine.over, f"the engine ended\n{self.engine.said()}{self.engine.events()}"
            return found

        return until(met)

    def release(self) -> None:
        """Let everything go its way."""
        self._hold(False)
        for gate in self.gates.values():
            gate.let(4)  # more attempts than any task has

    def complete(self) -> None:
        """See the run through to its end, whoever runs it."""
        if self.engine.over:
            self.start()
        self.engine.finish()

    def _hold(self, hold: bool) -> None:
        path = self.folder / "seam" / "hold"
        path.touch() if hold else path.unlink(missing_ok=True)

    def complaints(self, wanted: Codes) -> list[str]:
        return self.books.complaints(wanted, self.forgotten)

    def is_linked(self, task: str) -> bool:
        """What the engine writes beside a task that has begun is there."""
        return (self.folder / self.log_dir / task / "latest.log").is_symlink()

    def close(self) -> None:
        self.lives.close()
        self.books.end_tasks()
        for gate in self.gates.values():
            gate.close()


_REACHED: Mapping[str, Callable[[Case], object]] = {
    "waiting": lambda case: case.ledger.begun("keeper"),
    "starting": lambda case: (case.folder / "seam/held").exists(),
    "running": lambda case: case.ledger.begun("subject") and case.is_linked("subject"),
    "stopping": lambda case: [line for line in case.ledger.lines("asked") if line.task == "subject"],
    "backoff": lambda case: case.engine.ended("subject"),
}
