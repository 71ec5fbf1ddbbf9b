"""From page to page over a real deck: what keys do there, what they do not, and that it is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudeck.tests.fakes.live_deck import live_deck
from gpudeck.tests.fakes.screen_rig import OnDeck, ScreenRig, over, run, screen_on
from gpudeck.tui.screens.choice import Choice
from gpudeck.tui.screens.dashboard import Dashboard
from gpudeck.tui.screens.deck_screen import DeckScreen
from gpudeck.tui.screens.detail import Detail
from gpudeck.tui.screens.errors import ErrorsScreen
from gpudeck.tui.screens.logs import LogScreen

DECK = """
[deck]
gpus = "sim:2"
halt = "never"
[[task]]
name = "bad"
command = ["sh", "-c", "[ -e good ] && sleep 1000; exit 3"]
[[task]]
name = "worse"
command = ["sh", "-c", "echo ValueError: bad rate >&2; exit 1"]
[[task]]
name = "{n}"
command = ["true"]
matrix.n = ["a", "b"]
"""


@pytest.fixture
def on_deck(tmp_path: Path) -> OnDeck:
    """Runs a body over the deck once all has ended."""
    return over(tmp_path, DECK, {"bad": "failed", "worse": "failed", "a": "succeeded", "b": "succeeded"})


def targets(rig: ScreenRig) -> tuple[str, ...]:
    assert isinstance(rig.app.screen, DeckScreen)
    return rig.app.screen.targets()


async def until_on(rig: ScreenRig, kind: type) -> None:
    await rig.until(lambda: isinstance(rig.app.screen, kind) and rig.app.screen.is_mounted, kind.__name__)


def test_the_key_that_opens_a_tasks_page_leaves_it(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("g", "d")
        await until_on(rig, Detail)
        await rig.press("d")
        await until_on(rig, Dashboard)

    on_deck(body)


def test_d_in_a_log_opens_the_tasks_page_and_there_leads_back_to_the_log(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("g", "l")
        await until_on(rig, LogScreen)
        await rig.press("d")
        await until_on(rig, Detail)
        await rig.press("d")
        await until_on(rig, LogScreen)

    on_deck(body)


def test_d_in_a_log_that_the_tasks_page_has_opened_leads_back_to_it(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("g", "d")
        await until_on(rig, Detail)
        await rig.press("l")
        await until_on(rig, LogScreen)
        await rig.press("d")
        await until_on(rig, Detail)
        assert len(rig.app.screen_stack) == 3  # the empty one, the table, the page

    on_deck(body)


def test_a_key_that_does_nothing_on_a_page_says_so(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("g", "d")
        await until_on(rig, Detail)
        await rig.press("slash")
        await rig.until_seen("filter: not here")

    on_deck(body)


def test_capital_r_on_the_errors_asks_what_to_retry(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("e")
        await until_on(rig, ErrorsScreen)
        await rig.until_seen("2 tasks failed")
        await rig.press("R")
        await until_on(rig, Choice)

    on_deck(body)


def test_a_second_r_on_the_errors_retries_no_other_group(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        (rig.deck.folder / "good").touch()
        await rig.press("e")
        await until_on(rig, ErrorsScreen)
        await rig.until_seen("2 tasks failed")
        if targets(rig) != ("bad",):
            await rig.press("j")
        assert targets(rig) == ("bad",)
        await rig.press("r")
        await rig.until_state("bad", "running")
        await rig.until_seen("1 task failed")
        await rig.press("r")
        await rig.until_seen("bad is running")
        assert targets(rig) == ("bad",)
        assert rig.row("worse").attempt == 1

    on_deck(body)


def test_a_page_that_opens_while_the_terminal_is_behind_is_remembered_as_not_drawn(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        rig.app.has_missed = False
        with rig.app.batch_update():
            await rig.press("e")
            await until_on(rig, ErrorsScreen)
            await rig.until(lambda: rig.app.has_missed, "it has not been drawn")

    on_deck(body)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
def test_the_header_tells_that_the_deck_is_paused_on_a_fresh_screen(tmp_path: Path, size: tuple[int, int]) -> None:
    values = list(range(70))
    text = f'[deck]\ngpus = "sim:2"\n[[task]]\nname = "t-{{n}}"\nmatrix.n = {values}\ncommand = ["sleep", "9"]\n'

    async def whole() -> None:
        with live_deck(tmp_path, text) as deck:
            deck.start()
            with deck.client() as client:
                client.request("pause")
            async with screen_on(deck, size=size) as rig:
                await rig.until_seen("▎ paused")
                header, body = rig.app.screen.query_one("#header"), rig.app.screen.query_one("#body")
                assert (header.region.height, body.region.y) == (3, 3)

    run(whole)
