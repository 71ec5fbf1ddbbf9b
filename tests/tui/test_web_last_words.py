"""What a tab shows of a screen that cannot start, or has been left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.live_deck import LiveDeck, live_deck
from tests.inside.tui import words_of
from tests.tui.web_rig import Browser, browser, web_on

pytestmark = pytest.mark.browser

DECK = '[deck]\ngpus = "sim:1"\n[[task]]\nname = "train"\ncommand = "sleep 600"\n'
SAID = "document.getElementById('said').textContent"


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[LiveDeck]:
    with live_deck(tmp_path, DECK) as deck:
        yield deck


def in_a_tab(deck: LiveDeck, folder: Path, body: Callable[[Browser], Awaitable[None]], *, broken: bool = False) -> None:
    async def run() -> None:
        with web_on(deck) as web:
            if broken:
                with deck.client() as client:
                    client.request("stop")
                deck.until(lambda: not deck.holder(), "the engine ends")
                deck.write('[deck]\n[[task]]\nname = "<img src=x onerror=document.title=1>"\nnme = 1\n')
            async with browser(folder) as page:
                await page.open(web.url)
                await body(page)
                assert page.errors == []

    asyncio.run(run())


def test_a_screen_that_cannot_start_says_why_and_it_is_text(deck: LiveDeck, tmp_path: Path) -> None:
    async def body(page: Browser) -> None:
        await page.until("document.body.classList.contains('-closed')", "the tab has left")
        said = await page.until(SAID, "why it has")
        assert 'tasks.toml:4: task "<img src=x' in said
        assert not await page.value("document.querySelector('#said img')")

    in_a_tab(deck, tmp_path, body, broken=True)


def test_a_screen_that_is_left_says_what_goes_on(deck: LiveDeck, tmp_path: Path) -> None:
    async def body(page: Browser) -> None:
        await page.until_drawn("train")
        await page.click_cell(20, 3)
        await page.press("q")
        said = await page.until(SAID, "what goes on")
        assert said == f"engine {deck.holder()} goes on, 1 task running: `gpudeck` comes back, `gpudeck stop` ends it"

    in_a_tab(deck, tmp_path, body)


def test_of_many_lines_the_last_are_told_without_what_a_terminal_obeys() -> None:
    said = (
        b"".join(b"line %d\n" % number for number in range(20)) + b"\x1b[31mred\x1b[0m \x1b]0;title\x07\xff end\r\n\n"
    )
    assert words_of(said).splitlines()[-2:] == ["line 19", "red � end"]
    assert "line 11" not in words_of(said)


def test_a_read_only_page_starts_no_engine(deck: LiveDeck, tmp_path: Path) -> None:
    async def body() -> None:
        with web_on(deck, "--read-only") as web:
            async with browser(tmp_path) as page:
                await page.open(web.url)
                await page.until_drawn("read-only")
                await page.until_drawn("train")
        assert not deck.holder()

    asyncio.run(body())
