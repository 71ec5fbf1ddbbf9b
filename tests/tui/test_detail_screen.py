"""The page about a task, over a real engine."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from gpudeck.tests.fakes.screen_rig import SIZES, OnDeck, ScreenRig, over
from gpudeck.tui.messages import OpenTask
from gpudeck.tui.screens.choice import Choice
from gpudeck.tui.screens.dashboard import Dashboard
from gpudeck.tui.screens.detail import Detail
from gpudeck.tui.screens.logs import LogScreen
from gpudeck.tui.widgets.detail_view import DetailView

DECK = """
[deck]
gpus = "sim:2"
halt = "never"
[[task]]
name = "first"
gpus = 0
command = ["true"]
[[task]]
name = "bad"
retries = 1
backoff = "0s"
needs = ["first"]
env = { LR = "3e-4", HF_TOKEN = "hf_secret" }
tags = ["[red]x[/]"]
command = ["sh", "run.sh", "bad"]
[[task]]
name = "long"
needs = ["first"]
command = ["sh", "run.sh", "long"]
[[task]]
name = "later"
needs = ["bad"]
command = ["true"]
"""
RUN = """
case $1 in
bad) echo "loss=0.5"; echo "loss=0.25"; echo "Traceback: no such shape" >&2; [ -e good ] || exit 3;;
*) echo "::gpudeck progress=1/4 wer=0.5"; echo "::gpudeck progress=2/4 wer=0.25"
   while [ ! -e more ]; do sleep 0.05; done; echo "::gpudeck progress=3/4 wer=0.125"; sleep 1000;;
esac
"""


@pytest.fixture
def on_deck(tmp_path: Path) -> OnDeck:
    """Runs a body over the deck once `bad` has failed twice and `long` runs."""
    return over(tmp_path, DECK, {"bad": "failed", "long": "running"}, script=RUN)


async def opened(rig: ScreenRig, name: str) -> Detail:
    rig.app.screen.post_message(OpenTask(name))
    await rig.until(lambda: isinstance(rig.app.screen, Detail), "the page is open")
    screen = rig.app.screen
    assert isinstance(screen, Detail)
    await rig.until(lambda: said(screen), "it tells something")
    return screen


def said(screen: Detail) -> str:
    """All of the page, also what is scrolled away."""
    return "\n".join("".join(span.text for span in line) for line in screen.query_one(DetailView).lines)


async def until_said(rig: ScreenRig, screen: Detail, *texts: str) -> None:
    for text in texts:
        await rig.until(lambda text=text: text in said(screen), f"{text!r} in\n{said(screen)}")


def test_d_opens_the_task_under_the_cursor_and_escape_leads_back(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await rig.press("g", "j", "d")
        await rig.until(lambda: isinstance(rig.app.screen, Detail))
        await rig.until_seen("Attempts")
        assert rig.app.screen.targets() == ("bad",)  # pyright: ignore[reportAttributeAccessIssue]
        await rig.press("escape")
        await rig.until(lambda: isinstance(rig.app.screen, Dashboard))

    on_deck(body)


def test_a_failed_task_shows_its_attempts_and_the_end_of_its_log(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        screen = await opened(rig, "bad")
        await until_said(rig, screen, "exit 3", "Attempt 2", "Traceback: no such shape", "▸  2", "   1  ")

    on_deck(body)


def test_secrets_are_masked_and_markup_is_text(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        screen = await opened(rig, "bad")
        await until_said(rig, screen, "LR=3e-4", "HF_TOKEN=***", "[red]x[/]")
        assert "hf_secret" not in said(screen)

    on_deck(body)


def test_a_blocked_task_tells_why_it_does_not_start(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        screen = await opened(rig, "later")
        await until_said(rig, screen, "Waits for", "needs bad, which did not succeed")

    on_deck(body)


def test_curves_of_a_running_attempt_grow(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        screen = await opened(rig, "long")
        await until_said(rig, screen, "wer  0.25   min 0.25 at progress 2")
        (rig.deck.folder / "more").touch()
        await until_said(rig, screen, "wer  0.125   min 0.125 at progress 3")

    on_deck(body)


def test_curves_of_an_attempt_that_is_over_are_shown(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await until_said(rig, await opened(rig, "bad"), "loss  0.25")

    on_deck(body)


def test_brackets_go_to_other_attempts(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        screen = await opened(rig, "bad")
        await until_said(rig, screen, "attempt-2.log")
        await rig.press("left_square_bracket")
        await until_said(rig, screen, "Attempt 1", "attempt-1.log")
        await rig.press("left_square_bracket")
        await rig.until_seen("that is the first attempt")
        await rig.press("right_square_bracket")
        await until_said(rig, screen, "attempt-2.log")

    on_deck(body)


def test_n_and_p_go_through_the_tasks_in_the_tables_order(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        screen = await opened(rig, "first")
        await rig.press("n")
        await rig.until(lambda: screen.task_name == "bad")
        await rig.press("n")
        await rig.until(lambda: screen.task_name == "long")
        await rig.press("p")
        await rig.until(lambda: screen.task_name == "bad")
        await until_said(rig, screen, "exit 3")

    on_deck(body)


def test_the_tables_cursor_goes_along(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await opened(rig, "first")
        await rig.press("n", "n", "escape")
        await rig.until(lambda: isinstance(rig.app.screen, Dashboard))
        assert rig.app.screen.targets() == ("long",)  # pyright: ignore[reportAttributeAccessIssue]

    on_deck(body)


def test_enter_on_a_need_opens_it_and_escape_comes_back(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        screen = await opened(rig, "later")
        await until_said(rig, screen, "waits on   bad")
        await rig.press("tab", "enter")
        await rig.until(lambda: screen.task_name == "bad")
        await rig.press("escape")
        await rig.until(lambda: screen.task_name == "later")
        assert rig.app.screen is screen

    on_deck(body)


def test_a_click_on_a_need_opens_it(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        screen = await opened(rig, "later")
        await until_said(rig, screen, "waits on   bad")
        lines = rig.text().splitlines()
        y = next(at for at, line in enumerate(lines) if "waits on   bad" in line)
        await rig.pilot.click(offset=(lines[y].index("waits on   bad") + 12, y))
        await rig.until(lambda: screen.task_name == "bad")

    on_deck(body)


def test_r_retries_this_task_and_the_page_follows(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        screen = await opened(rig, "bad")
        (rig.deck.folder / "good").touch()
        await rig.press("r")
        await rig.until_state("bad", "succeeded")
        await until_said(rig, screen, "▸  3  ok", "succeeded")

    on_deck(body)


def test_k_asks_and_kills_this_task(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await opened(rig, "long")
        await rig.press("K")
        await rig.until(lambda: isinstance(rig.app.screen, Choice))
        await rig.press("y")
        await rig.until_state("long", "cancelled")

    on_deck(body)


def test_y_copies_the_command(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await opened(rig, "bad")
        await rig.press("y")
        await rig.until_seen("command copied")
        assert rig.app.clipboard == "sh run.sh bad"

    on_deck(body)


def test_l_opens_its_log_and_escape_comes_back(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        screen = await opened(rig, "long")
        await rig.press("l")
        await rig.until(lambda: isinstance(rig.app.screen, LogScreen))
        await rig.until_seen("wer=0.25")
        await rig.press("escape")
        await rig.until(lambda: rig.app.screen is screen)

    on_deck(body)


def test_a_terminal_that_cannot_be_lent_is_said(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        await opened(rig, "bad")
        await rig.press("v")
        await rig.until_seen("this terminal cannot be lent")

    on_deck(body)


def test_no_thread_or_process_goes_on_reading_behind_another_screen(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        screen = await opened(rig, "long")
        await until_said(rig, screen, "wer  0.25")
        await rig.press("l")
        await rig.until(lambda: isinstance(rig.app.screen, LogScreen))
        assert not screen.reads
        await rig.press("escape")
        await rig.until(lambda: screen.reads, "it reads again")

    on_deck(body)


@pytest.mark.parametrize("size", [*SIZES, (40, 10), (20, 5)])
def test_every_size_can_be_drawn_and_scrolled(on_deck: OnDeck, size: tuple[int, int]) -> None:
    async def body(rig: ScreenRig) -> None:
        await opened(rig, "bad")
        await rig.press("j", "G", "k", "pagedown", "g", "tab", "tab", "shift+tab")
        assert rig.app.is_running

    on_deck(body, size=size)


def test_an_engine_that_vanishes_and_comes_back_goes_on_telling(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        screen = await opened(rig, "long")
        engine = rig.app.deck.link.pid
        os.kill(engine, signal.SIGKILL)
        await rig.until(lambda: rig.app.deck.link.live and rig.app.deck.link.pid != engine, "another engine runs")
        (rig.deck.folder / "more").touch()
        await rig.press("K")
        await rig.until(lambda: isinstance(rig.app.screen, Choice))
        await rig.press("y")
        await rig.until_state("long", "cancelled")
        await until_said(rig, screen, "– cancelled")

    on_deck(body)


def test_keys_and_sizes_in_a_row_end_with_a_whole_page(on_deck: OnDeck) -> None:
    async def body(rig: ScreenRig) -> None:
        screen = await opened(rig, "first")
        for width, height in ((200, 60), (30, 8), (80, 24), (151, 29), (120, 40)):
            await rig.press(*"nnjpG", "tab", "left_square_bracket", "pageup", "right_square_bracket", *"pgn")
            await rig.pilot.resize_terminal(width, height)
        await rig.until(lambda: rig.app.deck.row(screen.task_name) is not None)
        await until_said(rig, screen, screen.task_name)
        assert rig.app.screen is screen

    on_deck(body)
