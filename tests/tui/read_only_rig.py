"""Decks that are only looked at, and what tells that nothing of them was touched."""

from __future__ import annotations

import hashlib
import subprocess
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from gpudeck.engine.client.place import Place
from gpudeck.engine.command import Command
from gpudeck.tui.client import DeckClient
from gpudeck.tui.open_screen import app_on
from gpudeck.tui.settings import Config
from tests.e2e.decks import GPUDECK
from tests.fakes import forked
from tests.fakes.live_deck import DEADLINE_S, LiveDeck
from tests.fakes.screen_rig import ScreenRig

MIXED = """
[deck]
gpus = "sim:2"
[[task]]
name = "good"
command = "echo step 3/3 loss=0.25"
[[task]]
name = "bad"
command = "echo 'KeyError: lr' >&2; exit 3"
[[task]]
name = "after-bad"
needs = ["bad"]
command = "true"
"""


def finish(deck: LiveDeck) -> None:
    """Run it to its end."""
    if forked.can_fork(deck.env):
        forked.run(("--headless",), cwd=deck.folder, env=deck.env, timeout=DEADLINE_S)
    else:
        subprocess.run((GPUDECK, "--headless"), cwd=deck.folder, env=deck.env, stdout=subprocess.DEVNULL, check=False)
    deck.until(lambda: not deck.holder(), "the engine has ended")


def contents(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Every file and folder below: inode, time of the last change, a digest."""
    found: dict[str, tuple[int, int, str]] = {}
    for path in sorted(folder.rglob("*")):
        stat = path.lstat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = stat.st_ino, stat.st_mtime_ns, digest
    return found


def kept(deck: LiveDeck) -> dict[str, dict[str, tuple[int, int, str]]]:
    """Of what must stay as it is: state and logs."""
    return {name: contents(deck.folder / name) for name in (".gpudeck", "logs")}


@asynccontextmanager
async def looking_at(deck: LiveDeck, *, size: tuple[int, int] = (120, 40)) -> AsyncGenerator[ScreenRig]:
    """The read-only screen over *deck*, whole."""
    place = Place.of(Command("deck", file=deck.path))
    app = app_on(place, DeckClient(place, read_only=True), config=Config())
    async with app.run_test(size=size, notifications=True) as pilot:
        rig = ScreenRig(app, pilot, deck)
        deadline = time.monotonic() + DEADLINE_S
        while not app.deck.whole:
            assert app.deck.link.kind != "failed", app.deck.link
            assert time.monotonic() < deadline, app.deck.link
            await pilot.pause(0.02)
        await pilot.pause()
        yield rig
