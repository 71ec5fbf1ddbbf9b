"""The screen over a real engine: what its user presses, what becomes of the tasks, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.fakes.screen_rig import OnDeck, ScreenRig, over
from tests.inside.tui import Choice, Dashboard, client, proc

DECK = """
[deck]
gpus = "sim:3"
halt = "never"
[[task]]
name = "{kind}"
matrix.kind = ["long", "bad", "later"]
command = ["sh", "run.sh", "{kind}"]
"""
RUN = """
echo "this is $1"
case $1 in
bad) [ -e good ] || exit 3; [ -e stay ] && exec sleep 1000; exit 0;;
*) exec sleep 1000;;
esac
"""


@pytest.fixture
def on_deck(tmp_path: Path) -> OnDeck:
    """Runs a body over the deck once `bad` has failed, `long` and `later` run."""
    return over(tmp_path, DECK, {"bad": "failed", "long": "running", "later": "running"}, script=RUN)


def is_paused(rig: ScreenRig) -> bool:
    return rig.app.deck.head is not None and bool(rig.app.deck.head.paused)


async def asked(rig: ScreenRig, *keys: str) -> None:
    await rig.press(*keys)
    await rig.until(lambda: isinstance(rig.app.screen, Choice) and rig.app.screen.is_mounted, "a question")


async def test_a_user_sees_logs_retries_in_a_pause_holds_takes_back_cancels_and_kills(on_deck: OnDeck) -> None:
    async with on_deck() as rig:
        await rig.press("g")
        await rig.until_seen("this is long")
        await rig.press("j")
        await rig.until_seen("this is bad")

        (rig.deck.folder / "good").touch()
        await asked(rig, "P")
        await rig.until_seen("Pause the deck?")
        await rig.press("p")
        await rig.until(lambda: is_paused(rig), "it is paused")
        await rig.press("r")
        await rig.until_seen("the deck is paused")
        assert rig.row("bad").attempt == 1
        await rig.press("P")
        assert (await rig.until_state("bad", "succeeded")).attempt == 2
        assert not is_paused(rig)

        await rig.press("g", "H")
        await rig.until(lambda: rig.row("long").held, "it is held")
        await rig.until_seen("u takes it back")
        await rig.press("u")
        await rig.until(lambda: not rig.row("long").held, "it is free again")

        await asked(rig, "c")
        await rig.until_seen("Cancel long?")
        await rig.press("enter")
        await rig.until(lambda: isinstance(rig.app.screen, Dashboard), "it is answered")
        assert rig.row("long").state == "running"
        await asked(rig, "c")
        await rig.press("y")
        await rig.until_state("long", "cancelled")
        await asked(rig, "G", "K")
        await rig.press("y")
        await rig.until_state("later", "cancelled")


async def test_a_shows_the_plan_and_an_answer_applies_it(tmp_path: Path) -> None:
    text = '[deck]\ngpus = "sim:2"\n[[task]]\nname = "fine"\ncommand = ["true"]\n'
    added = "".join(f'[[task]]\nname = "more-{n}"\ncommand = ["true", "{n}"]\n' for n in range(3))

    async with over(tmp_path, text, {"fine": "succeeded"})(size=(80, 24)) as rig:
        rig.deck.write(text.replace('["true"]', '["true", "other"]') + added)
        await rig.until(lambda: rig.app.deck.head and rig.app.deck.head.file_plan, "the file has changed")
        await asked(rig, "a")
        await rig.until(lambda: rig.app.screen.query_one("#choice-answers").region.height > 2, "it is laid out")
        seen = " ".join(rig.text().replace("│", " ").split())
        assert "added more-0, more-1, more-2: they start when" in seen
        assert "changed, ended fine (command)" in seen
        await rig.press("a")
        assert isinstance(rig.app.screen, Choice)
        await rig.press("e")
        await rig.until_state("more-2", "succeeded", "cached")
        assert rig.row("fine").attempt == 1


async def test_an_engine_that_another_shell_stops_leaves_the_screen_to_the_files(
    on_deck: OnDeck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "LOOK_S", 0.1)
    async with on_deck() as rig:
        pid = rig.row("long").pid
        with rig.deck.client() as other:
            other.request("stop")
        await rig.until_seen("^r starts it")
        await rig.until(lambda: "runs on without an engine" in rig.row("long").reason, "the files tell")

        psutil.Process(pid).children()[0].kill()
        await rig.until(lambda: "takes its result in" in rig.row("long").reason, "its end is seen")
        await rig.press("g", "d")
        await rig.until_seen("sh run.sh long")
        await rig.press("escape", "l")
        await rig.until_seen("this is long")
        await rig.press("escape", "Q")
        await rig.until_seen("no engine runs: ctrl+r starts one")
        assert not isinstance(rig.app.screen, Choice)
        await rig.press("E")
        await rig.until_seen("this terminal cannot be lent")

        await rig.press("ctrl+r")
        await rig.until_state("long", "failed")


async def test_q_leaves_and_stops_nothing(on_deck: OnDeck) -> None:
    async with on_deck() as rig:
        pid, engine = rig.row("long").pid, rig.app.deck.link.pid
        await rig.press("q")
        await rig.until(lambda: rig.app.return_value is not None)
        assert f"engine {engine} goes on, 2 tasks running" in str(rig.app.return_value)
        assert proc.stat(pid) is not None
        assert rig.deck.holder() == engine
