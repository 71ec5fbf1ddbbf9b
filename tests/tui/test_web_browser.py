"""The screen in a real browser: what is clicked and typed there reaches the engine."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.fakes.live_deck import LiveDeck, live_deck
from tests.fakes.local_rig import lives
from tests.tui.web_rig import Browser, Web, browser, until, web_on

pytestmark = pytest.mark.browser

DECK = """
[deck]
gpus = "sim:1"
[[task]]
name = "train-{i}"
matrix.i = [1, 2, 3, 4]
command = "echo epoch {i}/9; sleep 600"
"""
FIRST_ROW = 3
"""Of the table: the header has two lines, the table's own one."""


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[LiveDeck]:
    with live_deck(tmp_path, DECK) as deck:
        yield deck


def tabs(web: Web) -> list[int]:
    """Processes that serve tabs."""
    return [child.pid for child in psutil.Process(web.process.pid).children()]


def in_browser(deck: LiveDeck, folder: Path, body: Callable[[Browser, Web], Coroutine[Any, Any, None]]) -> None:
    """Runs *body* with a page in which the screen is drawn."""

    async def whole() -> None:
        with web_on(deck) as web:
            async with browser(folder) as page:
                await page.open(web.url)
                await page.until_drawn("train-4")
                await body(page, web)

    asyncio.run(whole())


def held(deck: LiveDeck) -> set[str]:
    with deck.client() as client:
        return {name for name, row in deck.until_rows(client, lambda rows: rows).items() if row.held}


def test_a_click_chooses_a_task_and_a_key_acts_on_it(deck: LiveDeck, tmp_path: Path):
    async def body(page: Browser, _: Web) -> None:
        await page.click_cell(20, FIRST_ROW + 2)
        await page.press("H")
        await until(lambda: held(deck) == {"train-3"}, "train-3 is held")
        assert page.errors == []

    in_browser(deck, tmp_path, body)


def test_a_click_on_the_key_bar_is_the_key(deck: LiveDeck, tmp_path: Path):
    async def body(page: Browser, web: Web) -> None:
        await page.until_drawn("leave")
        bar = page.drawn[page.drawn.index("l log") :]
        await page.click_cell(1 + bar.index("q leave"), -1)
        await page.until("document.body.classList.contains('-closed')", "the tab has left")
        await until(lambda: not tabs(web), "its process has ended")
        assert deck.holder(), "the engine goes on"

    in_browser(deck, tmp_path, body)


def test_the_page_is_drawn_and_leaves_nothing_that_another_port_would_get(deck: LiveDeck, tmp_path: Path):
    async def body(page: Browser, web: Web) -> None:
        empty = await page.picture(tmp_path / "early.png")
        await page.until_drawn("GPU 0")
        assert await page.value("location.href") == web.url
        assert await page.value("document.cookie") == ""
        await page.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        drawn = await page.picture(tmp_path / "page.png")
        width, height = struct.unpack(">II", drawn[16:24])
        assert width > 600
        assert height > 400
        assert len(drawn) > 10_000, (len(empty), "a picture of nothing")

    in_browser(deck, tmp_path, body)


def test_a_page_that_is_loaded_again_gets_a_screen_of_its_own(deck: LiveDeck, tmp_path: Path):
    async def body(page: Browser, web: Web) -> None:
        first = tabs(web)
        page.drawn = ""
        await page.call("Page.reload")
        await page.until_drawn("train-4")
        await until(lambda: tabs(web) and not set(tabs(web)) & set(first), "the first one's process has ended")

    in_browser(deck, tmp_path, body)


def test_a_page_of_somebody_else_in_the_same_browser_does_not_get_in(deck: LiveDeck, tmp_path: Path):
    async def body(page: Browser, web: Web) -> None:
        await page.call("Page.navigate", url="data:text/html,<title>evil</title>")
        await page.until("document.title == 'evil'", "the other page is there")
        await until(lambda: not tabs(web), "the tab's process has ended")
        script = (
            f"new Promise(done => {{ const s = new WebSocket('{web.url.replace('http', 'ws')}/ws');"
            " s.onopen = () => done('in'); s.onerror = () => done('refused') })"
        )
        assert await page.value(script) == "refused"
        assert tabs(web) == []

    in_browser(deck, tmp_path, body)


def test_ctrl_c_ends_the_server_and_its_tabs_and_no_engine(deck: LiveDeck, tmp_path: Path):
    async def body(page: Browser, web: Web) -> None:
        children = tabs(web)
        assert await asyncio.to_thread(web.interrupt) == 0
        await until(lambda: not any(map(lives, children)), "the tabs have ended")
        assert deck.holder()

    in_browser(deck, tmp_path, body)
