"""`gpudeck report --serve`: the report as a page that follows its deck."""

from __future__ import annotations

import asyncio
import gzip
import signal
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.decks import Deck, deck_in
from tests.fakes import forked
from tests.tui.web_rig import browser

FAILS = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "a-{i}"
    command = "[ -e {i} ]"
    matrix.i = [1, 2]
"""


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[Deck]:
    with deck_in(tmp_path / "deck") as deck:
        deck.write(FAILS)
        assert deck.run().code == 1
        deck.tune("engine.report_html.live", _LEAST_S=0.0, _TIMES=0)
        deck.tune("cli.commands.report", _EVERY_S=1)
        yield deck


@contextmanager
def served(deck: Deck, *words: str) -> Generator[str]:
    """Its address."""
    command = forked.popen(["report", "--serve", *words], cwd=deck.folder, env=deck.env, seams=deck.seams)
    assert command.stdout is not None
    assert command.stderr is not None
    try:
        yield command.stdout.readline().strip()
    finally:
        command.send_signal(signal.SIGINT)
        assert command.wait(30) == 0
        assert "the page is closed" in command.stderr.read()


def fetched(address: str, tag: str = "", *, encoding: str = "gzip") -> tuple[int, str, str]:
    """Status, text and tag."""
    request = urllib.request.Request(address, headers={"If-None-Match": tag, "Accept-Encoding": encoding})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            body = answer.read()
            body = gzip.decompress(body) if answer.headers["Content-Encoding"] == "gzip" else body
            return answer.status, body.decode(), answer.headers["ETag"]
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), tag


def test_the_page_is_of_now_and_only_for_who_has_its_key(deck: Deck) -> None:
    with served(deck) as address:
        status, page, _ = fetched(address)
        assert (status, "2 failures" in page) == (200, True)
        assert fetched(address, encoding="identity")[1].startswith("<!doctype html>")
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=30) as head:
            assert (head.status, head.read()) == (200, b"")
        for other in (address[:-1], address.rpartition("/")[0], address + "x", address + "/../"):
            assert fetched(other)[0] == 404, other
        (deck.folder / "1").touch()
        deck.run()
        assert "1 failure<" in fetched(address)[1]


def test_a_page_that_is_as_it_was_is_not_sent_again(deck: Deck) -> None:
    deck.tune("engine.report_html.live", _LEAST_S=1000.0)
    with served(deck) as address:
        _, _, tag = fetched(address)
        assert fetched(address, tag) == (304, "", tag)


def test_while_there_is_no_deck_the_page_says_so_and_comes_back(deck: Deck) -> None:
    with served(deck) as address:
        places = ("tasks.toml", ".gpudeck")
        for name in places:
            (deck.folder / name).rename(deck.folder / f"{name}.away")
        status, why, _ = fetched(address)
        assert (status, "tasks.toml" in why) == (503, True)
        for name in places:
            (deck.folder / f"{name}.away").rename(deck.folder / name)
        assert fetched(address)[0] == 200


@pytest.mark.parametrize("words", [("-o", "x.html"), ("--open",)])
def test_what_writes_a_file_does_not_go_with_serving(deck: Deck, words: tuple[str, ...]) -> None:
    refused = deck.command("report", "--serve", *words)
    assert (refused.code, "does not go with --serve" in refused.err) == (2, True)
    assert deck.command("report", "--port", "1").code == 2


@pytest.mark.browser
def test_in_a_browser_it_becomes_new_and_what_was_typed_stays(deck: Deck, tmp_path: Path) -> None:
    deck.run()  # an earlier run can be opened

    async def look(address: str) -> None:
        async with browser(tmp_path) as tab:
            await tab.open(address)
            await tab.until("document.readyState == 'complete' && document.body.dataset.trouble === ''", "it has asked")
            await tab.value("words.value = 'a-1'; words.dispatchEvent(new Event('input')); words.focus()")
            await tab.value("document.querySelectorAll('details').forEach(each => { each.open = true; })")
            (deck.folder / "1").touch()
            await asyncio.to_thread(deck.run)
            await tab.until("document.querySelector('#failures')?.textContent == '1 failure'", "it is new")
            shown = "[...document.querySelectorAll('#tasks tbody tr:not([hidden]) th')].map(cell => cell.textContent)"
            assert await tab.value(shown) == ["a-1"]
            assert await tab.value("document.activeElement.id") == "words"
            assert await tab.value("[...document.querySelectorAll('details')].some(each => each.open)")
            assert tab.errors == []

    with served(deck) as address:
        asyncio.run(look(address))
