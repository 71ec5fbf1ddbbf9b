"""What screens say while an engine that has frozen does not answer."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fakes.screen_rig import OnDeck, ScreenRig, over
from tests.inside.tui import Dashboard, KeyBar, LogScreen, LogView, OpenLogs, OpenTask

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


async def test_a_page_waits_for_the_engine_and_says_so(on_deck: OnDeck) -> None:
    async with on_deck() as rig:
        for key, then in (("t", "one"), ("e", "nothing has failed"), ("o", "round 0")):
            with frozen(rig):
                await rig.press(key)
                await rig.until_seen(WAITING)
                assert "nothing has run" not in rig.text()
            await rig.until(lambda: WAITING not in rig.text(), "the engine has answered")
            await rig.until_seen(then)
            await rig.press("escape")


async def test_a_tasks_page_and_the_next_one_wait_for_the_engine_and_say_so(on_deck: OnDeck) -> None:
    async with on_deck() as rig:
        with frozen(rig):
            rig.app.screen.post_message(OpenTask("one"))
            await rig.until_seen(f"one: {WAITING}")
        await rig.until_seen("echo this is one")
        assert WAITING not in rig.text()
        with frozen(rig):
            await rig.press("n")
            await rig.until_seen(f"two: {WAITING}")
            assert "echo this is one" not in rig.text()


async def test_the_log_beside_the_table_opens_without_the_engine_and_another_waits_for_it(on_deck: OnDeck) -> None:
    async with on_deck() as rig:
        await see_log_of_one(rig)
        with frozen(rig):
            await rig.press("l")
            await rig.until(lambda: isinstance(rig.app.screen, LogScreen), "the log is open")
            await rig.until_seen("this is one")
            view = rig.app.screen.query(LogView).first()
            await rig.until(lambda: view.has_focus_within, "keys go to it")
            assert "attempt back" not in str(rig.app.screen.query_one(KeyBar).render())
            await rig.press("escape")
            await rig.until(lambda: isinstance(rig.app.screen, Dashboard), "it is left")
            rig.app.screen.post_message(OpenLogs(("two",)))
            await rig.until_seen(WAITING)
        await rig.until_seen("this is two")
        assert WAITING not in rig.text()


async def test_what_is_asked_of_a_frozen_engine_is_said_to_wait_and_done_once_it_answers(on_deck: OnDeck) -> None:
    async with on_deck() as rig:
        with frozen(rig):
            await rig.press("g", "plus")
            await rig.until_seen("priority: the engine has not answered yet")
            await rig.press("P", "P")
            await rig.until_seen("pause: the engine has not answered yet")
        await rig.until_seen("paused: nothing more starts")
        await rig.until(lambda: rig.row("one").priority == 1, "its priority is told")


async def test_the_log_of_another_task_does_not_stay_under_the_name_of_the_one_under_the_cursor(
    on_deck: OnDeck,
) -> None:
    async with on_deck() as rig:
        await see_log_of_one(rig)
        with frozen(rig):
            await rig.press("j")
            await rig.until_seen(f"two · {WAITING}")
            assert "this is one" not in rig.text()
        await rig.until_seen("this is two")
        assert WAITING not in rig.text()
