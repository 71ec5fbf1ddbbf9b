"""The screen in a real browser: what is clicked and typed there reaches the engine."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from tests.fakes.live_deck import LiveDeck, live_deck
from tests.fakes.local_rig import lives
from tests.inside.tui import words_of
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
SAID = "document.getElementById('said').textContent"
FIRST_ROW = 3
"""Of the table: the header has two lines, the table's own one."""


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[LiveDeck]:
    with live_deck(tmp_path, DECK) as deck:
        yield deck


def tabs(web: Web) -> list[int]:
    """Processes that serve tabs."""
    return [child.pid for child in psutil.Process(web.process.pid).children()]


@asynccontextmanager
async def in_browser(deck: LiveDeck, folder: Path, *options: str) -> AsyncGenerator[tuple[Browser, Web]]:
    """A page in which the screen is drawn."""
    with web_on(deck, *options) as web:
        async with browser(folder) as page:
            await page.open(web.url)
            await page.until_drawn("train-4")
            yield page, web


def held(deck: LiveDeck) -> set[str]:
    with deck.client() as client:
        return {name for name, row in deck.until_rows(client, lambda rows: rows).items() if row.held}


async def test_a_click_chooses_a_task_and_a_key_acts_on_it(deck: LiveDeck, tmp_path: Path):
    async with in_browser(deck, tmp_path) as (page, _):
        await page.click_cell(20, FIRST_ROW + 2)
        await page.press("H")
        await until(lambda: held(deck) == {"train-3"}, "train-3 is held")
        assert page.errors == []


async def test_keys_act_as_soon_as_the_page_is_there(deck: LiveDeck, tmp_path: Path):
    async with in_browser(deck, tmp_path) as (page, _):
        await page.press("H")
        await until(lambda: held(deck) == {"train-1"}, "train-1 is held")


async def test_a_click_on_the_key_bar_is_the_key(deck: LiveDeck, tmp_path: Path):
    async with in_browser(deck, tmp_path) as (page, web):
        await page.until_drawn("leave")
        bar = page.drawn[page.drawn.index("l log") :]
        await page.click_cell(1 + bar.index("q leave"), -1)
        said = await page.until(SAID, "what goes on")
        assert said == f"engine {deck.holder()} goes on, 1 task running: `gpudeck` comes back, `gpudeck stop` ends it"
        await until(lambda: not tabs(web), "its process has ended")
        assert deck.holder(), "the engine goes on"


async def test_the_page_is_drawn_and_leaves_nothing_that_another_port_would_get(deck: LiveDeck, tmp_path: Path):
    async with in_browser(deck, tmp_path) as (page, web):
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


async def test_a_page_that_is_loaded_again_gets_a_screen_of_its_own(deck: LiveDeck, tmp_path: Path):
    async with in_browser(deck, tmp_path) as (page, web):
        first = tabs(web)
        page.drawn = ""
        await page.call("Page.reload")
        await page.until_drawn("train-4")
        await until(lambda: tabs(web) and not set(tabs(web)) & set(first), "the first one's process has ended")


async def test_a_page_of_somebody_else_in_the_same_browser_does_not_get_in(deck: LiveDeck, tmp_path: Path):
    async with in_browser(deck, tmp_path) as (page, web):
        await page.call("Page.navigate", url="data:text/html,<title>evil</title>")
        await page.until("document.title == 'evil'", "the other page is there")
        await until(lambda: not tabs(web), "the tab's process has ended")
        script = (
            f"new Promise(done => {{ const s = new WebSocket('{web.url.replace('http', 'ws')}/ws');"
            " s.onopen = () => done('in'); s.onerror = () => done('refused') })"
        )
        assert await page.value(script) == "refused"
        assert tabs(web) == []


async def test_ctrl_c_ends_the_server_and_its_tabs_and_no_engine(deck: LiveDeck, tmp_path: Path):
    async with in_browser(deck, tmp_path) as (_, web):
        children = tabs(web)
        assert await asyncio.to_thread(web.interrupt) == 0
        await until(lambda: not any(map(lives, children)), "the tabs have ended")
        assert deck.holder()


async def test_a_screen_that_cannot_start_says_why_and_it_is_text(deck: LiveDeck, tmp_path: Path):
    with web_on(deck) as web:
        with deck.client() as client:
            client.request("stop")
        deck.until(lambda: not deck.holder(), "the engine ends")
        deck.write('[deck]\n[[task]]\nname = "<img src=x onerror=document.title=1>"\nnme = 1\n')
        async with browser(tmp_path) as page:
            await page.open(web.url)
            said = await page.until(SAID, "why it has")
            assert 'tasks.toml:4: task "<img src=x' in said
            assert not await page.value("document.querySelector('#said img')")
            assert page.errors == []


async def test_a_read_only_page_starts_no_engine(deck: LiveDeck, tmp_path: Path):
    async with in_browser(deck, tmp_path, "--read-only") as (page, _):
        await page.until_drawn("read-only")
    assert not deck.holder()


def test_of_many_lines_the_last_are_told_without_what_a_terminal_obeys():
    said = (
        b"".join(b"line %d\n" % number for number in range(20)) + b"\x1b[31mred\x1b[0m \x1b]0;title\x07\xff end\r\n\n"
    )
    assert words_of(said).splitlines()[-2:] == ["line 19", "red � end"]
    assert "line 11" not in words_of(said)
