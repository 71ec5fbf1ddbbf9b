"""An engine that is killed again and again, by the clock and at steps of its own, loses nothing and repeats nothing."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import random
import signal
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.faults.books import Books, Codes
from tests.faults.ledger import Ledger
from tests.faults.lives import Life, Lives

SEED = 20
KILLS = 200
KILLS_A_DECK = 40
"""Then it is let run to its end, however slow the box is."""
LONGEST_S = 0.3
"""Of an engine's life, where the clock ends it."""
STEPS = (100, 25_000)
"""Between how many and how many steps an engine lives, where it ends itself; a whole run has some 50,000."""

_DECK = """\
[deck]
gpus = "sim:4"
[defaults]
retries = 2
backoff = "30ms"
linger = "50ms"
retry_on = ["fail", "timeout"]
[[task]]
name = "first-{i}"
matrix.i = [0, 1, 2, 3, 4, 5, 6, 7]
command = ["sh", "work.sh", "sleep 0.0{i}; test $GPUDECK_ATTEMPT -gt $(({i} % 3)) || finish 1{i}; finish 0"]
[[task]]
name = "gang-{i}"
round = 1
gpus = 2
matrix.i = [0, 1, 2]
command = ["sh", "work.sh", "sleep 0.05; test $GPUDECK_ATTEMPT -gt {i} || finish 2{i}; finish 0"]
[[task]]
name = "small-{i}"
round = 1
matrix.i = [0, 1, 2, 3]
command = ["sh", "work.sh", "echo made >made.{i}; finish 0"]
outputs = ["made.{i}"]
[[task]]
name = "all"
round = 2
gpus = 4
command = ["sh", "work.sh", "sleep 0.03; finish 0"]
[[task]]
name = "leaves"
round = 2
command = ["sh", "work.sh", "sh -c 'sleep 0.04' & finish 0"]
[[task]]
name = "slow"
round = 2
timeout = "1s"
command = ["sh", "work.sh", "trap 'say asked; sleep 0.02; finish 4' TERM; test $GPUDECK_ATTEMPT = 2 && finish 0; hold"]
[[task]]
name = "last"
round = 3
needs = ["all", "first-*"]
gpus = 0
command = ["sh", "work.sh", "finish 0"]
"""
WANTED: Codes = {
    **{f"first-{i}": [int(f"1{i}")] * (i % 3) + [0] for i in range(8)},
    **{f"gang-{i}": [int(f"2{i}")] * i + [0] for i in range(3)},
    **{f"small-{i}": [0] for i in range(4)},
    "all": [0],
    "leaves": [0],
    "slow": [4, 0],
    "last": [0],
}


@dataclass
class Storm:
    """A deck whose engines are killed."""

    folder: Path
    lives: Lives = field(init=False)
    books: Books = field(init=False)
    kills: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir()
        os.mkfifo(self.folder / "gate.slow")
        self.lives = Lives(self.folder)
        self.books = Books(self.folder, Ledger(self.folder), self.lives)
        (self.folder / "tasks.toml").write_text(_DECK)

    def rage(self, dice: random.Random, *, most: int) -> None:
        """Kill engines until one has seen the run through."""
        while not self.over:
            if self.kills == most:
                self.lives.start()
            elif dice.random() < 0.5:
                self.kill_by_the_clock(dice.uniform(0, LONGEST_S))
            else:
                self.kill_at_a_step(round(math.exp(dice.uniform(*map(math.log, STEPS)))))

    def close(self) -> None:
        self.lives.close()
        self.books.end_tasks()

    def kill_by_the_clock(self, after_s: float) -> None:
        life = self.lives.start()
        clock = threading.Timer(after_s, life.signal, (signal.SIGKILL,))
        clock.start()
        self._count(life)
        clock.cancel()

    def kill_at_a_step(self, number: int) -> None:
        self._count(self.lives.start(mortal=number))

    @property
    def over(self) -> bool:
        """Whether an engine has seen the run through."""
        return bool(self.lives.all) and self.lives.last.finish() != -signal.SIGKILL

    def _count(self, life: Life) -> None:
        self.kills += life.finish() == -signal.SIGKILL


@pytest.mark.soak
def test_after_200_kills_at_random_moments_every_attempt_ran_once_and_has_its_true_code(tmp_path: Path) -> None:
    dice = random.Random(SEED)
    kills = 0
    for number in itertools.count():
        if kills >= KILLS:
            return
        with contextlib.closing(Storm(tmp_path / f"deck-{number}")) as storm:
            storm.rage(dice, most=min(KILLS_A_DECK, KILLS - kills))
            assert storm.books.complaints(WANTED) == [], storm.folder
            kills += storm.kills
