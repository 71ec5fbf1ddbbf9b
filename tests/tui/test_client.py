"""The screen's line to the engine: it tells what comes, and brings back an engine that vanishes."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from gpudeck.engine.errors import EngineUnavailableError, TaskFileError
from tests.fakes.live_deck import DEADLINE_S, LiveDeck, live_deck
from tests.inside.tui import Command, DeckClient, DeckModel, Link, Place, client, in_thread

ENDLESS = """
[deck]
cpu_slots = 2
[[task]]
name = "train-{n}"
matrix.n = [0, 1]
command = ["sleep", "1000"]
gpus = 0
"""


class Follower:
    """Takes what comes, as the screen does."""

    def __init__(self, deck: LiveDeck) -> None:
        self.model = DeckModel()
        self.links: list[Link] = []
        self.client = DeckClient(Place.of(Command("deck", file=deck.path)))
        self._news = asyncio.Event()

    async def follow(self) -> None:
        async for news in self.client.news():
            if isinstance(news, Link):
                self.model.link = news
                self.links.append(news)
            elif not isinstance(news, str):
                self.model.fold(news)
            self._news.set()

    async def until_running(self, count: int) -> None:
        await self.until(lambda: sum(row.state == "running" for row in self.model.rows.values()) == count)

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not holds():
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def following(deck: LiveDeck) -> AsyncGenerator[Follower]:
    """Once both tasks run."""
    follower = Follower(deck)
    task = asyncio.create_task(follower.follow())
    await follower.until_running(2)
    yield follower
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def stop(deck: LiveDeck, follower: Follower) -> None:
    """As another shell does it."""
    with deck.client() as other:
        other.request("stop")
    await follower.until(lambda: follower.model.link.kind == "over")
    await in_thread(lambda: deck.until(lambda: not deck.holder(), "the engine ends"))


async def test_a_killed_engine_is_replaced_and_the_tasks_are_the_same_processes(tmp_path: Path) -> None:
    with live_deck(tmp_path, ENDLESS) as deck:
        async with following(deck) as follower:
            pids = {row.pid for row in follower.model.rows.values()}
            first = follower.model.link.pid
            os.kill(first, signal.SIGKILL)
            await follower.until(lambda: follower.model.link.live and follower.model.link.pid != first)
            await follower.until_running(2)
            assert {row.pid for row in follower.model.rows.values()} == pids
            assert follower.model.link.pid == deck.holder()


async def test_what_is_asked_while_an_engine_is_replaced_the_next_one_answers(tmp_path: Path) -> None:
    with live_deck(tmp_path, ENDLESS) as deck:
        async with following(deck) as follower:
            first = follower.model.link.pid
            os.kill(first, signal.SIGKILL)
            (told,) = await asyncio.wait_for(follower.client.request("show", tasks=["train-0"]), DEADLINE_S)
            assert told["name"] == "train-0"
            assert first not in (deck.holder(), 0)


async def test_an_engine_that_is_stopped_stays_stopped_until_it_is_wanted_again(tmp_path: Path) -> None:
    with live_deck(tmp_path, ENDLESS) as deck:
        async with following(deck) as follower:
            await stop(deck, follower)
            with pytest.raises(EngineUnavailableError, match=r"no engine runs: ctrl\+r starts one"):
                await follower.client.request("cancel", tasks=["train-0"])
            follower.client.reconnect()
            await follower.until(lambda: follower.model.link.live)
            await follower.until_running(2)


async def test_where_no_engine_starts_the_files_tell_each_time_what_is_wrong(tmp_path: Path) -> None:
    def told() -> int:
        return sum(link.kind == "failed" and "as the deck took them last" in link.text for link in follower.links)

    with live_deck(tmp_path, ENDLESS) as deck:
        async with following(deck) as follower:
            await stop(deck, follower)
            deck.write(ENDLESS.replace("command", "comand"))
            for times in (1, 2):
                follower.client.reconnect()
                await follower.until(lambda times=times: told() == times)
            assert len(await follower.client.request("show", tasks=["train-0"])) == 1


async def test_an_engine_that_another_shell_starts_after_a_goodbye_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "LOOK_S", 0.05)
    with live_deck(tmp_path, ENDLESS) as deck:
        async with following(deck) as follower:
            await stop(deck, follower)
            engine = await in_thread(deck.start)
            await follower.until(lambda: follower.model.link.live)
            assert follower.model.link.pid == engine.pid


async def test_a_deck_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with live_deck(tmp_path, "[[task]]\nnme = 1\n") as deck:
        opening = DeckClient(Place.of(Command("deck", file=deck.path))).open()
        with pytest.raises(TaskFileError, match=r"tasks\.toml:2"):
            opening.result(DEADLINE_S)


def test_leaving_does_not_wait_for_what_never_answers() -> None:
    never = threading.Event()

    async def wait() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(in_thread(never.wait), 0.01)

    asyncio.run(wait())
    assert not never.is_set()
    never.set()
