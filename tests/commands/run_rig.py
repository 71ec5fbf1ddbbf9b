"""`gpudeck run` in a folder: on simulated GPUs, in a shell of one's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.commands.commands_rig import Commanded
from tests.e2e.decks import until

ONE = ("run", "--gpus", "sim:1")
TWO = ("run", "--gpus", "sim:2")


def runs_of(deck: Commanded) -> dict[str, dict[str, Any]]:
    """`gpudeck ls --queue --json` by name."""
    done = deck.command("ls", "--queue", "--json")
    assert done.code == 0, done.err
    return {row["name"]: row for row in json.loads(done.out)}


def state_of(deck: Commanded, name: str) -> str:
    return runs_of(deck)[name]["state"]


def until_run(deck: Commanded, name: str, *states: str) -> None:
    until(lambda: runs_of(deck).get(name, {}).get("state") in states)


def book_of(deck: Commanded) -> Path:
    """The task file of the queue; the folder where it would be, while it is not there."""
    return next(deck.queue_folder.glob("queue@*.toml"), deck.queue_folder / "queue@.toml")
