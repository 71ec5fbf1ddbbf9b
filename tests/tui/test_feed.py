"""The screen's line to the engine: it folds what comes, and brings back an engine that vanishes."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from gpudeck.engine.errors import EngineUnavailableError, TaskFileError
from tests.fakes import forked
from tests.fakes.live_deck import DEADLINE_S, LiveDeck, live_deck
from tests.inside.tui import Command, Connection, DeckModel, Feed, Link, Place, feed_of

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
    """Takes what the feed brings, as the screen does."""

    def __init__(self, deck: LiveDeck) -> None:
        forked._server()  # not by the feed's thread, which blocks all signals
        self.deck = deck
        self.model = DeckModel()
        self.links: list[Link] = []
        self.feed = feed_of(Place.of(Command("deck", file=deck.path)))
        self._woken = threading.Event()
        self.feed.start()
        self.feed.wakes(self._woken.set)

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self.feed.close()

    def take(self) -> None:
        self._woken.clear()
        change = self.feed.take()
        if change is None:
            return
        if change.link is not None:
            self.links.append(change.link)
        self.model.fold(change)

    def until_running(self, count: int) -> None:
        self.until(lambda: sum(row.state == "running" for row in self.model.rows.values()) == count)

    def until(self, holds: object) -> None:
        assert callable(holds)
        while not holds():
            assert self._woken.wait(DEADLINE_S), self.links
            self.take()


def test_a_killed_engine_is_replaced_and_the_tasks_are_the_same_processes(tmp_path: Path) -> None:
    with live_deck(tmp_path, ENDLESS) as deck, Follower(deck) as follower:
        follower.until_running(2)
        pids = {row.pid for row in follower.model.rows.values()}
        first = follower.model.link.pid
        os.kill(first, signal.SIGKILL)
        follower.until(lambda: follower.model.link.live and follower.model.link.pid != first)
        follower.until_running(2)
        assert {row.pid for row in follower.model.rows.values()} == pids
        assert follower.model.link.pid == deck.holder()


def test_an_engine_that_is_stopped_stays_stopped_until_it_is_wanted_again(tmp_path: Path) -> None:
    with live_deck(tmp_path, ENDLESS) as deck, Follower(deck) as follower:
        follower.until_running(2)
        with deck.client() as client:
            client.request("stop")
        follower.until(lambda: follower.model.link.kind == "over")
        deck.until(lambda: not deck.holder(), "the engine ends")
        follower.feed.reconnect()
        follower.until(lambda: follower.model.link.live)
        follower.until_running(2)


def test_an_engine_that_another_shell_starts_after_a_goodbye_is_followed(tmp_path: Path) -> None:
    with live_deck(tmp_path, ENDLESS) as deck, Follower(deck) as follower:
        follower.until_running(2)
        with deck.client() as client:
            client.request("stop")
        follower.until(lambda: follower.model.link.kind == "over")
        deck.until(lambda: not deck.holder(), "the engine ends")
        engine = deck.start()
        follower.until(lambda: follower.model.link.live)
        assert follower.model.link.pid == engine.pid


def test_a_deck_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with live_deck(tmp_path, "[[task]]\nnme = 1\n") as deck, Follower(deck) as follower:
        assert follower.feed.opened.wait(DEADLINE_S)
        assert isinstance(follower.feed.refused, TaskFileError)
        assert "tasks.toml:2" in str(follower.feed.refused)


def test_closing_does_not_wait_for_an_engine_that_never_answers() -> None:
    never = threading.Event()

    def hang(_vanished: bool) -> Connection:
        never.wait()
        raise EngineUnavailableError("too late")

    feed = Feed(hang)
    feed.start()
    feed.close()
    never.set()
