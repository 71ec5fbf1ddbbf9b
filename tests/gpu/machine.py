"""The machine that is asked: its cards, a Python with torch, decks, and processes that hold memory of a card."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.decks import Deck, caller_environment, deck_in, until
from tests.gpu import smi
from tests.gpu.record import NotPossibleError

WORK = Path(__file__).with_name("work")
Told = dict[str, Any]


class HoldError(Exception):
    """A process that was to hold memory did not come so far: its last words."""


@dataclass
class Machine:
    folder: Path
    python: str
    """An interpreter whose torch computes on the cards; "" where there is none,"""
    torch: str
    """its version, or why there is none."""
    cards: list[Told]
    """Those that are asked, as `gpudeck gpus --json` tells of them; nobody else uses them."""
    prepare: Callable[[Deck], None]
    """Makes a deck one of this machine."""
    env: Mapping[str, str] = field(default_factory=caller_environment)
    pace: float = 1.0
    """Of the seconds that a training takes."""
    idle_percent: float = 5.0
    """What an engine may take of a core when nobody looks and nothing happens."""
    stack: ExitStack = field(default_factory=ExitStack)

    @property
    def smi(self) -> smi.Query:
        return smi.program(self.env)

    @property
    def card(self) -> Told:
        return self.cards[0]

    def card_rows(self) -> list[smi.Row]:
        """nvidia-smi's, of the card that is asked."""
        return [row for row in smi.cards(self.smi) if row["uuid"] == self.card["uuid"]]

    def used_mib(self) -> int:
        return int(self.card_rows()[0]["memory.used"] or 0)

    def deck(self, name: str, tasks: str, *, cards: int = 1, keys: str = "") -> Deck:
        """A deck on the first *cards*, with a gate "gate". In *tasks* PYTHON and WORK/ stand for what they are."""
        if not self.python:
            raise NotPossibleError(self.torch)
        deck = self.stack.enter_context(deck_in(self.folder / name))
        self.prepare(deck)
        gpus = ",".join(str(card["index"]) for card in self.cards[:cards])
        head = f'[deck]\ngpus = "{gpus}"\nforeign_quiet = "0s"\n{keys}\n[defaults]\nbackoff = "0s"\nlinger = "0s"\n'
        deck.write(head + tasks.replace("PYTHON", self.python).replace("WORK/", f"{WORK}/"))
        deck.gate()
        return deck

    def box(self) -> Told:
        """What `gpudeck gpus --json` tells."""
        deck = Deck(self.folder)
        self.prepare(deck)
        return box_told(deck)

    def told(self, deck: Deck | None = None) -> Told:
        """The card that is asked, as gpudeck shows it: as one of the box, or of a deck that runs."""
        options = ("gpus", "-f", "tasks.toml", "--json")
        rows = (self.box() if deck is None else json.loads(deck.command(*options).out))["gpus"]
        return next(row for row in rows if row["uuid"] == self.card["uuid"])

    @contextmanager
    def hold(self, mib: int, *before: str, **more: Any) -> Iterator[Told]:
        """A process that no deck started holds memory; gives what it told. *before*: words of a program that starts it.
        Raises HoldError where it does not come so far."""
        if not self.python:
            raise NotPossibleError(self.torch)
        env = {**self.env, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": self.card["uuid"]}
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        command = [*before, self.python, str(WORK / "hold.py"), str(mib), "-"]
        try:
            process = subprocess.Popen(command, env=env, cwd="/", text=True, **pipes, **more)
        except OSError as error:
            raise HoldError(str(error)) from None
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                words = process.communicate(timeout=30)[1].strip().splitlines()
                raise HoldError(words[-1] if words else f"it ended with {process.returncode}")
            yield json.loads(line)
        finally:
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=30)
            process.kill()
            process.wait()

    def wait_until_free(self) -> None:
        """What ended has left the card."""
        until(lambda: is_idle(self.told()))

    def other_pids(self) -> list[str]:
        """The words that start a program in a namespace of pids of its own."""
        words = ["unshare", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")), "--pid", "--fork"]
        try:
            subprocess.run([*words, "true"], check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise NotPossibleError("there is no unshare") from None
        except subprocess.CalledProcessError as error:
            raise NotPossibleError(error.stderr.strip()) from None
        return [*words, "--kill-child"]


def is_idle(row: Told) -> bool:
    return not row["processes"] and (row["used_mib"] or 0) < 1024


def box_told(deck: Deck) -> Told:
    """What `gpudeck gpus --json` tells of the box; no GPUs and the words for it where the driver does not answer."""
    ran = deck.command("gpus", "--json")
    return json.loads(ran.out) if ran.out.startswith("{") else {"gpus": [], "driver": "", "error": ran.err.strip()}
