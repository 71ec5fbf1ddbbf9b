"""What commands say of a deck at one time."""

from __future__ import annotations

import contextlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from gpudeck.cli.commands.look import LiveLook
from gpudeck.cli.commands.rows import plain
from gpudeck.engine.client.place import Place
from gpudeck.engine.serve.offline import offline_look
from gpudeck.engine.taskfile.options import RunOptions

from .deck import UsedDeck

HOLDING = ("starting", "running", "stopping", "closing", "unknown")
"""States of a task that has slots."""
WAITING = ("waiting", "queued", "blocked", "backoff")


@dataclass(frozen=True, slots=True)
class Told:
    """JSON as `ls`, `status` and `explain` print it."""

    rows: dict[str, dict[str, Any]]
    status: dict[str, Any]
    obstacles: dict[str, list[str]]
    """Of what waits."""


def told(deck: UsedDeck) -> Told:
    """As commands get it: from the engine, or from disk where none runs. Takes milliseconds."""
    place = Place(str(deck.folder / "tasks.toml"), RunOptions(), deck.env, tell=lambda _: None)
    connection = place.attach()
    with connection or contextlib.nullcontext():
        found = LiveLook(connection) if connection is not None else offline_look(place, quiet=True)
        rows = {row.name: plain(row) for row in found.rows(())}
        why = {name: found.explain(name) for name, row in rows.items() if row["state"] in WAITING}
        head = found.head()
        status = {**plain(head), "counts": asdict(head.counts), "engine": found.engine}
        return Told(rows, {**status, "gpus": [plain(gpu) for gpu in found.gpus()]}, why)


def printed(deck: UsedDeck) -> Told:
    """As three commands print it at the same time. Fails where one of them fails."""
    asked = (("ls", "--json"), ("status", "--json"), ("explain", "t*", "--json"))

    def ask(words: tuple[str, ...]) -> Any:
        done = deck.run_command(*words)
        assert done.code == 0, (words, done)
        return json.loads(done.out)

    with ThreadPoolExecutor(3) as pool:
        rows, status, why = pool.map(ask, asked)
    obstacles = {one["name"]: one["obstacles"] for one in why if one["state"] in WAITING}
    return Told({row["name"]: row for row in rows}, status, obstacles)
