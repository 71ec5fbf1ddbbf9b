"""Decks whose task file is edited while they run."""

from __future__ import annotations

import os
from typing import Any

from gpudeck.engine.client.attach import attach
from gpudeck.engine.taskfile.options import RunOptions
from tests.e2e.decks import Deck, Engine

AUTO = """
[deck]
gpus = "sim:2"
reload = "auto"
"""
OFF = """
[deck]
gpus = "sim:2"
"""


def task(name: str, command: str, *more: str) -> str:
    return "\n".join(["[[task]]", f'name = "{name}"', f"command = '''{command}'''", *more, ""])


def waits(name: str, *more: str, then: str = "true") -> str:
    """A task that waits at the gate, and says that it ran."""
    return task(name, f"read _ <gate; echo {name} >> ran; {then}", *more)


def apply(deck: Deck, options: RunOptions | None = None, **args: Any) -> dict[str, Any]:
    """Ask the engine that runs, as `gpudeck apply` does."""
    connection = attach(str(deck.folder / "tasks.toml"), options or RunOptions())
    assert connection is not None
    with connection:
        return connection.request("apply", **args)


def save(deck: Deck, text: str, name: str = "tasks.toml") -> None:
    """As editors do: a new file in the place of the old one."""
    (deck.folder / f"{name}~").write_text(text)
    os.replace(deck.folder / f"{name}~", deck.folder / name)


def begun(deck: Deck, text: str, *running: str, options: tuple[str, ...] = ()) -> Engine:
    deck.write(text)
    engine = deck.start(*options)
    engine.started(*running)
    return engine


def gpus_of(deck: Deck) -> dict[int, tuple[tuple[str, ...], str]]:
    """What the engine tells of the deck's GPUs, by index: the tasks on each, and what its note is about."""
    connection = attach(str(deck.folder / "tasks.toml"), RunOptions())
    assert connection is not None
    with connection:
        rows = connection.request("status")["gpus"]
    return {row["index"]: (tuple(row.get("tasks", ())), row.get("note_kind", "")) for row in rows}
