"""Commands that meet an engine that is about to end, or that cannot take them in."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from gpudeck.engine.protocol.wire import Reply
from tests.commands.commands_rig import MIXED, Commanded
from tests.fakes.ending_engine import EndingEngine
from tests.inside.commands import listen
from tests.rigs.desk import Desk, at_desk

ENDING = Reply(id=0, ok=False, error="the engine was just ending", code=75)


@pytest.mark.parametrize("last", [None, ENDING], ids=["hangs up", "says so"])
@pytest.mark.parametrize("words", [("retry", "bad"), ("pause",), ("gpus", "drain", "1")], ids=lambda words: words[0])
@at_desk(MIXED, {"good": 0, "bad": 3})
async def test_what_an_ending_engine_is_asked_for_the_next_one_does(
    desk: Desk, words: tuple[str, ...], last: Reply | None
) -> None:
    assert await desk.run() == 1
    ending = EndingEngine(desk.folder / ".gpudeck" / "tasks", last)
    done = await desk.command(*words)
    assert done.code == 0, done.err
    assert ending.ended()
    assert len(ending.asked) == 1


@at_desk(MIXED)
async def test_an_engine_that_has_all_the_clients_it_takes_says_so_at_once(desk: Desk) -> None:
    await desk.start()
    with contextlib.ExitStack() as clients:
        for _ in range(64):
            clients.enter_context(await desk.connection())
        refused = await desk.command("pause")
    assert refused.code == 3
    assert refused.err.count("\n") == 1
    assert "64 clients attached" in refused.err


def test_an_engine_without_a_place_for_its_socket_fails_with_its_own_words(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.run().code == 1
    for folder in ("shared", ".gpudeck/tasks"):
        occupy(deck.folder / folder, deck.folder / ".gpudeck/tasks")
    deck.env["GPUDECK_SOCKET_DIR"] = os.fspath(deck.folder / "shared")
    failed = deck.command("retry", "bad")
    assert failed.code == 3
    assert "no socket can be made" in failed.err
    assert deck.holder() is None


def occupy(folder: Path, state: Path) -> None:
    """A folder in the place of the socket of the deck whose state lies in *state*."""
    folder.mkdir(mode=0o700, exist_ok=True)
    listener = listen(os.fspath(state), folder=os.fspath(folder))
    listener.close()
    Path(listener.address).mkdir()
