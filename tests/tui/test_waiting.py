"""What screens say while an engine that has frozen does not answer."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpudeck.tests.fakes.screen_rig import OnDeck, ScreenRig, over
from gpudeck.tui.messages import OpenLogs, OpenTask
from gpudeck.tui.screens.dashboard import Dashboard
from gpudeck.tui.screens.logs import LogScreen
from gpudeck.tui.widgets.key_bar import KeyBar
from gpudeck.tui.widgets.log_view import LogView

DECK = """
[deck]
gpus = "sim:2"
halt = "never"
[[task]]
name = "{n}"
matrix.n = ["one", "two"]
command = ["sh", "-c", "echo this is {n}; sleep 1000"]
"""
WAITING = "waiting for the engine"


@pytest.fixture
def on_deck(tmp_path: Path) -> OnDeck:
    """Runs a body over the deck once both run."""
    return over(tmp_path, DECK, {"one": "running", "two": "running"})


@contextmanager
def frozen(rig: ScreenRig) -> Generator[None]:
    engine = rig.deck.holder()
    os.kill(engine, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(engine, signal.SIGCONT)


async def see_log_of_one(rig: ScreenRig) -> None:
    await rig.press("g")
    await rig.until_seen("this is one")


@pytest.mark.parametrize(("key", "then"), [("t", "one"), ("e", "nothing has failed"), ("o", "round 0")])
def test_a_page_waits_for_the_engine_and_says_so(on_deck: OnDeck, key: str, then: str) -> None:
    async def body(rig: ScreenRig) -> None:
        with frozen(rig):
            await rig.press(key)
            await rig.until_seen(WAITING)
            assert "nothing has run" not in rig.text()
        await rig.until(lambda: WAITING not in rig.text(), "the engine has answered")
        await rig.until_seen(then)

    on_deck(body)


def test_a_tasks_page_waits_for_the_engine_and_says_so(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        with frozen(rig):
            rig.app.screen.post_message(OpenTask("two"))
            await rig.until_seen(f"two: {WAITING}")
        await rig.until_seen("echo this is two")
        assert WAITING not in rig.text()

    on_deck(body)


def test_the_next_tasks_page_says_that_it_waits_instead_of_the_one_before(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        rig.app.screen.post_message(OpenTask("one"))
        await rig.until_seen("echo this is one")
        with frozen(rig):
            await rig.press("n")
            await rig.until_seen(f"two: {WAITING}")
            assert "echo this is one" not in rig.text()

    on_deck(body)


def test_a_log_that_no_pane_has_shown_waits_for_the_engine_and_says_so(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await see_log_of_one(rig)
        with frozen(rig):
            rig.app.screen.post_message(OpenLogs(("two",)))
            await rig.until_seen(WAITING)
        await rig.until_seen("this is two")
        assert WAITING not in rig.text()

    on_deck(body)


def test_the_log_beside_the_table_opens_without_the_engine(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await see_log_of_one(rig)
        with frozen(rig):
            await rig.press("l")
            await rig.until(lambda: isinstance(rig.app.screen, LogScreen), "the log is open")
            await rig.until_seen("this is one")
            view = rig.app.screen.query(LogView).first()
            await rig.until(lambda: view.has_focus_within, "keys go to it")

    on_deck(body)


def test_no_attempt_before_is_offered_where_there_is_none(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await see_log_of_one(rig)
        await rig.press("l")
        await rig.until(lambda: isinstance(rig.app.screen, LogScreen), "the log is open")
        await rig.until_seen("this is one")
        assert "attempt back" not in str(rig.app.screen.query_one(KeyBar).render())
        await rig.press("escape")
        await rig.until(lambda: isinstance(rig.app.screen, Dashboard), "it is left")

    on_deck(body)
