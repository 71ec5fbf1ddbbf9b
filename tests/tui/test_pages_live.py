"""Timeline, graph and errors over a real engine: opened by their keys, left by them, and what they lead to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.screen_rig import OnDeck, over
from tests.inside.tui import Dashboard, ErrorsScreen, GraphScreen, PageScreen, TimelineScreen

DECK = """
[deck]
gpus = "sim:2"
[[task]]
name = "bad-{i}"
matrix.i = [1, 2]
command = "echo 'ValueError: no such rate' >&2; [ -e good ] || exit 3"
[[task]]
name = "long"
command = "while [ ! -e go ]; do sleep 0.05; done"
[[task]]
name = "report"
round = 1
gpus = 0
needs = ["long"]
command = "true"
"""


@pytest.fixture
def on_deck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OnDeck:
    """Runs a body over the deck once both `bad` have failed and `long` runs."""
    monkeypatch.setattr(PageScreen, "PERIOD_S", 0.1)
    return over(tmp_path, DECK, {"bad-1": "failed", "bad-2": "failed", "long": "running"})


async def test_the_timeline_shows_what_ran_where_and_the_graph_rounds_and_what_closes_them(on_deck: OnDeck) -> None:
    async with on_deck() as rig:
        await rig.press("t")
        await rig.until(lambda: isinstance(rig.app.screen, TimelineScreen))
        await rig.until_seen("GPU 1")
        await rig.until_seen("long  attempt 1")
        await rig.press("k", "k", "left")
        await rig.until_seen("bad-")
        await rig.press("o")
        await rig.until(lambda: isinstance(rig.app.screen, GraphScreen))
        await rig.until_seen("✗ 2")
        await rig.press("right")
        await rig.until_seen("round 0 closed by 2 failed: bad-1, bad-2")
        await rig.press("enter")
        await rig.until(lambda: isinstance(rig.app.screen, Dashboard))
        await rig.until_seen("entry:report round:1")


async def test_an_attempt_that_ends_while_the_timeline_is_open_ends_on_it(on_deck: OnDeck) -> None:
    async with on_deck() as rig:
        await rig.press("t")
        await rig.until_seen("running")
        (rig.deck.folder / "go").touch()
        await rig.until_state("long", "succeeded")
        await rig.until_seen("✓ long  attempt 1")


async def test_a_group_of_failures_shows_the_end_of_its_log_and_is_retried_and_taken_back_as_one(
    on_deck: OnDeck,
) -> None:
    async with on_deck() as rig:
        await rig.press("P", "p")
        await rig.until(lambda: rig.app.deck.head is not None and rig.app.deck.head.paused)
        await rig.press("e")
        await rig.until(lambda: isinstance(rig.app.screen, ErrorsScreen))
        await rig.until_seen("2 × exit 3: ValueError: no such rate")
        await rig.until_seen("│ ValueError: no such rate")
        await rig.press("r")
        await rig.until_state("bad-1", "queued")
        await rig.press("u")
        await rig.until_state("bad-1", "failed")
        await rig.until_state("bad-2", "failed")
        await rig.until_seen("taken back")

        (rig.deck.folder / "good").touch()
        await rig.until_seen("2 × exit 3")
        await rig.press("P", "r")
        for name in ("bad-1", "bad-2"):
            await rig.until_state(name, "succeeded")
        await rig.until_seen("nothing has failed")
