"""The page about a task, over a real engine."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.geometry import Region

from tests.fakes.screen_rig import SIZES, OnDeck, ScreenRig, over
from tests.fakes.snapshot_deck import ROWS, head
from tests.fakes.snapshot_gpus import EIGHT
from tests.fakes.snapshot_rig import snapshot_of, whole
from tests.fakes.snapshot_tasks import FAILED, RUNNING, answer
from tests.inside.tui import Choice, Dashboard, Detail, DetailView, KeyBar, LogScreen, OpenTask, detail

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
def on_deck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OnDeck:
    """Runs a body over the deck once `bad` has failed twice and `long` runs."""
    monkeypatch.setattr(detail, "PERIOD_S", 0.1)
    return over(tmp_path, DECK, {"bad": "failed", "long": "running"}, script=RUN)


async def until_holds(condition: Callable[[], bool]) -> None:
    """Without the pilot, which waits for screens."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


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


async def test_of_a_task_that_failed_its_user_sees_why_goes_through_its_attempts_and_retries_it(
    on_deck: OnDeck,
) -> None:
    async with on_deck() as rig:
        await rig.press("g", "j", "d")
        await rig.until(lambda: isinstance(rig.app.screen, Detail), "the page is open")
        screen = rig.app.screen
        assert isinstance(screen, Detail)
        assert screen.targets() == ("bad",)
        await until_said(rig, screen, "exit 3", "Attempt 2", "Traceback: no such shape", "▸  2", "   1  ", "loss  0.25")
        await until_said(rig, screen, "LR=3e-4", "HF_TOKEN=***", "[red]x[/]", "attempt-2.log")
        assert "hf_secret" not in said(screen)

        await rig.press("left_square_bracket")
        await until_said(rig, screen, "Attempt 1", "attempt-1.log")
        await rig.press("left_square_bracket")
        await rig.until_seen("that is the first attempt")
        await rig.press("right_square_bracket")
        await until_said(rig, screen, "attempt-2.log")

        await rig.press("y")
        await rig.until_seen("command copied")
        assert rig.app.clipboard == "sh run.sh bad"
        await rig.press("v")
        await rig.until_seen("this terminal cannot be lent")

        (rig.deck.folder / "good").touch()
        await rig.press("r")
        await rig.until_state("bad", "succeeded")
        await until_said(rig, screen, "▸  3  ok", "succeeded")
        await rig.press("escape")
        await rig.until(lambda: isinstance(rig.app.screen, Dashboard), "the table")


async def test_a_blocked_task_tells_why_and_leads_by_key_and_by_click_to_what_it_waits_for(on_deck: OnDeck) -> None:
    async with on_deck() as rig:
        screen = await opened(rig, "later")
        await until_said(rig, screen, "Waits for", "needs bad, which did not succeed", "waits on   bad")
        await rig.press("tab", "enter")
        await rig.until(lambda: screen.task_name == "bad", "enter on a need opens it")
        await rig.press("escape")
        await rig.until(lambda: screen.task_name == "later", "escape comes back")
        assert rig.app.screen is screen

        await rig.until_seen("waits on   bad")
        lines = rig.text().splitlines()
        y = next(at for at, line in enumerate(lines) if "waits on   bad" in line)
        await rig.pilot.click(offset=(lines[y].index("waits on   bad") + 12, y))
        await rig.until(lambda: screen.task_name == "bad", "a click opens it, too")


async def test_a_page_of_a_task_that_runs_goes_on_telling_through_another_screen_and_another_engine(
    on_deck: OnDeck,
) -> None:
    async with on_deck() as rig:
        screen = await opened(rig, "long")
        await until_said(rig, screen, "wer  0.25   min 0.25 at progress 2")
        await rig.press("l")
        await rig.until(lambda: isinstance(rig.app.screen, LogScreen), "its log")
        await rig.until_seen("wer=0.25")
        assert not screen.reads, "no thread or process goes on reading behind another screen"
        await rig.press("escape")
        await rig.until(lambda: rig.app.screen is screen and screen.reads, "it reads again")

        engine, pid = rig.app.deck.link.pid, rig.row("long").pid
        os.kill(engine, signal.SIGKILL)
        await rig.until(lambda: rig.app.deck.link.live and rig.app.deck.link.pid != engine, "another engine runs")
        assert (await rig.until_state("long", "running")).pid == pid
        (rig.deck.folder / "more").touch()
        await until_said(rig, screen, "wer  0.125   min 0.125 at progress 3")
        await rig.press("K")
        await rig.until(lambda: isinstance(rig.app.screen, Choice), "a question")
        await rig.press("y")
        await rig.until_state("long", "cancelled")
        await until_said(rig, screen, "– cancelled")


async def test_n_and_p_go_through_the_tasks_in_the_tables_order_whatever_else_is_pressed(on_deck: OnDeck) -> None:
    async with on_deck() as rig:
        screen = await opened(rig, "first")
        for key, name in (("n", "bad"), ("n", "long"), ("p", "bad")):
            await rig.press(key)
            await rig.until(lambda name=name: screen.task_name == name, name)
        await until_said(rig, screen, "exit 3")
        for width, height in ((200, 60), (30, 8), (80, 24), (151, 29), (120, 40)):
            await rig.press(*"nnjpG", "tab", "left_square_bracket", "pageup", "right_square_bracket", *"pgn")
            await rig.pilot.resize_terminal(width, height)
        await rig.until(lambda: rig.app.deck.row(screen.task_name) is not None)
        await until_said(rig, screen, screen.task_name)
        assert rig.app.screen is screen
        await rig.press("escape")
        await rig.until(lambda: isinstance(rig.app.screen, Dashboard), "the table")
        assert rig.app.screen.targets() == (screen.task_name,)  # pyright: ignore[reportAttributeAccessIssue]


async def test_what_the_mouse_has_marked_on_a_page_can_be_read_and_copied() -> None:
    async with snapshot_of(whole(ROWS, head(), EIGHT), (80, 24), answers={"show": answer(FAILED)}) as rig:
        rig.app.screen.post_message(OpenTask(FAILED["name"]))
        await rig.until_on(Detail)
        await rig.until_said("Attempt 3")
        view = rig.app.screen.query_one(DetailView)

        def colours() -> list[tuple[object, object]]:
            pieces = [piece for strip in view.render_lines(Region(0, 0, 60, 10)) for piece in strip]
            return [(p.style and p.style.color, p.style and p.style.bgcolor) for p in pieces if p.text.strip()]

        plain = colours()
        view.text_select_all()
        await rig.until(lambda: colours() != plain, "it is marked")
        assert all(ink != paper for ink, paper in colours())
        await rig.press("ctrl+c")
        await rig.until_told("copied")
        assert "Attempt 3" in rig.app.clipboard


async def test_an_answer_that_comes_while_the_page_is_taken_down_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    comes, down = asyncio.Event(), asyncio.Event()

    async def late(**asked: Any) -> object:
        await comes.wait()
        return answer(FAILED)(**asked)

    async def waits(_: KeyBar) -> None:
        await down.wait()

    monkeypatch.setattr(KeyBar, "on_unmount", waits, raising=False)
    async with snapshot_of(whole(ROWS, head(), EIGHT), (80, 24), answers={"show": late}) as rig:
        rig.app.screen.post_message(OpenTask(FAILED["name"]))
        await rig.until_on(Detail)
        page = rig.app.screen
        page.dismiss()
        try:
            await until_holds(lambda: not page.query(DetailView))  # the rest of it is still there
            comes.set()
            await until_holds(lambda: not any(w.group == "show" and w.is_running for w in rig.app.workers))
        finally:
            down.set()


async def test_a_page_tells_how_far_its_task_has_come_since() -> None:
    async with snapshot_of(whole(ROWS, head(), EIGHT), answers={"show": answer(RUNNING)}) as rig:
        rig.app.screen.post_message(OpenTask(RUNNING["name"]))
        await rig.until_on(Detail)
        await rig.until_said("62%")
        await rig.brings(rows={6: msgspec.structs.replace(ROWS[6], progress=0.75)})
        await rig.until_said("75%")


async def test_every_size_can_be_drawn_and_scrolled() -> None:
    async with snapshot_of(whole(ROWS, head(), EIGHT), (20, 5), answers={"show": answer(FAILED)}) as rig:
        rig.app.screen.post_message(OpenTask(FAILED["name"]))
        await rig.until_on(Detail)
        await rig.until_said("Attempt 3")
        for size in (*SIZES, (40, 10), (1, 1), (20, 5)):
            await rig.pilot.resize_terminal(*size)
            await rig.press("j", "G", "k", "pagedown", "g", "tab", "tab", "shift+tab")
        assert rig.app.is_running
